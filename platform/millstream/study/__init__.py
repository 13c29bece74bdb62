"""Studies: the effect of delivery guarantees and of lost state on learners, measured by many paired trials on Spark."""
