"""The jobs of `lior pipeline`: each a function `run(spark, config) -> Result`."""
