-- `admission_commits` replaces it.
drop table flights;
