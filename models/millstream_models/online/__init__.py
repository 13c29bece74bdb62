"""Models that learn record by record, compiled: naive Bayes, softmax regression, and FTRL-proximal."""
