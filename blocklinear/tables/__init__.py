"""Tables to rows: Parquet, Arrow and CSV files, by a recipe that the store and the model keep."""
