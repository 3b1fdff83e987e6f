-- Place-holder of a branch: numbers have no gaps. Replaced by the migration of that number.

SELECT 1;
