"""Training on the workers of Dask distributed: the same optimum, the same certificate.

The method is CoCoA+ (Ma et al., ICML 2015) with three changes. In every round each part of the
blocks is worked on alone, from the same weights, and the changes of all parts are added up; which
blocks are in a part is drawn anew each round. How much larger the curvature of the sum of parts is
than that of one is estimated for each feature. And an exact line search along the sum makes any
such estimate safe.
"""
