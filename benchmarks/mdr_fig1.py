"""MDR Fig. 1: √B against the number of categories r, α = 0.05; B is the upper α/r quantile of χ² with 1 degree of freedom.

The paper prints the curve only; its text says that √B is "above 200 %" where it matters. Writes mdr_fig1.csv and
mdr_fig1.svg.
"""

import numpy as np
from matplotlib import pyplot as plt
from paper_settings import MDR_ALPHA
from scipy.stats import chi2, norm
from writing import save, write_csv

QUICK = True


def main() -> None:
    r = np.unique(np.geomspace(2, 10**7, 200).astype(int))
    root = np.sqrt(chi2.isf(MDR_ALPHA / r, 1))
    # the same quantity from the normal quantile: a χ²_1 variable is a squared normal one
    assert np.allclose(root, norm.isf(MDR_ALPHA / r / 2), rtol=1e-9)
    marks = [2, 5, 9, 16, 50, 100, 300, 1000, 10_000, 1_814_400]
    write_csv("mdr_fig1.csv", [{"r": k, "sqrt_B": float(np.sqrt(chi2.isf(MDR_ALPHA / k, 1)))} for k in marks])
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.semilogx(r, root)
    axes.axhline(2, color="k", lw=0.5, ls=":")
    axes.set(xlabel="categories r", ylabel="√B", title="Factor of the absolute error, α = 0.05 (MDR Fig. 1)")
    save(figure, "mdr_fig1.svg")


if __name__ == "__main__":
    main()
