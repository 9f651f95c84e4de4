"""What was measured of where the χ² limit of a test's statistic can be believed."""

from __future__ import annotations

# Records that a report must be expected of. Reports that expect fewer make χ² too large a p-value (levels of 1.5 to 4 % at
# nominal 5 %) or, where several attributes' rare categories meet, too small a one (0.8 % at nominal 0.1 %); steps of one record
# show in the tail, so that χ² is off at the usual levels, too, and says nothing of p-values that no simulated table reaches.
# Where every report expects this many and χ² still does not hold, the p-value is far in the tail.
MANY_EXPECTED = 50.0
# Standard errors above 0 of every fitted cell that a likelihood ratio asks for: one that far above 0 is estimated below 0 in 3
# of 10^5 tables, and at 0 the ratio falls short of χ².
CLEAR_OF_ZERO = 4.0
