"""A process drives statements on Spark, whose tasks run the code of query workers."""
