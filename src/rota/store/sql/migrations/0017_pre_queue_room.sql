-- Room on each page for a second, longer version of every row: a start writes node, boot, epoch and time into it. With
-- 60 % half of the starts found no room on their page and wrote into every index again; with 40 % none did.
alter table queue set (fillfactor = 40);
