"""Models of the zoo, by family. `case.load()` gives all builders by the models' names; this package imports torch only where it builds."""
