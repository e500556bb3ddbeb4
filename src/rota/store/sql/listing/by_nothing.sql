$5::text is null
