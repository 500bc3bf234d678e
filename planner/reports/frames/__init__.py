"""The numbers behind every chart, as data frames."""
