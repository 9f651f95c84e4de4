"""Reports: randomized records, bound to the design that they were asked by, and every analysis of them.

    reports = optrr.reports("out.parquet", design)      or design.reports(frame)
    reports.table("sex", "income")                      shares, for groups or with weights
    reports.measure("odds-ratio", "sex", "income")      two attributes compared; one number of a table
    reports.share("income", ">50K", among={"sex": "F"}) a share in a sub-population; contrast(…): sums of them
    reports.quantiles("age", [0.25, 0.5, 0.75])         medians and their like
    reports.test("sex", "income", given="age")          a hypothesis; tests([…]): a family of them
    reports.model("sex*income + age")                   a log-linear model
    reports.regress("income ~ age + sex")               a regression
    reports.synthesize(1000)                            records to hand on
    reports.pooled(0.01).table("race", "income")        the same with rare categories as one

Answers to questions (:class:`optrr.SampledTables`) are no records, but every table that they tell about is estimated with its
law, so that tables, measures, tests and models are the same calls; what needs records is refused.

What is in doubt about the records is a Python warning of each analysis (:class:`optrr.OptrrWarning`), in the words of the
commands. Weights, strata and clusters that the design or the release names, or options do, are taken into account by tables,
measures of two attributes, shares, contrasts, quantiles, regressions and tests of independence, unless ``unweighted``; other
analyses warn that they ignore them.

What a design can see before anybody is asked is computed here, too: it is the same tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from optrr.core.display.text import MISSING
from optrr.core.domain.public import NONE, PublicColumns
from optrr.core.errors import InvalidInput, warn
from optrr.core.records.counts import OpenedRecords

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from optrr.analysis.collapsed import Pool
    from optrr.analysis.loglinear.estimating import LogLinear
    from optrr.analysis.measures import Among, Measures, WeightedShare
    from optrr.analysis.regression.fitting import Regression
    from optrr.analysis.synthesis.drawing import Synthetic
    from optrr.analysis.weighting import WeightedEstimate
    from optrr.analysis.weighting.linearised import Single
    from optrr.core.domain.domain import Attribute, Category, Domain, GivenScores
    from optrr.core.estimation.derived import Derived
    from optrr.core.estimation.estimator import Estimate
    from optrr.core.estimation.plausibility import CountedTable
    from optrr.core.estimation.poisoned import Poisoning
    from optrr.core.inference.drawn_power import PredictedPower
    from optrr.core.inference.power_analysis import Alternative
    from optrr.core.inference.result import Adjustment, TestFamily, TestResult
    from optrr.core.mechanisms.mechanism import Mechanism
    from optrr.core.records.counts import Counts

    Seed = int | np.random.Generator | None

_GOODNESS, _HOMOGENEITY, _WITHIN_STRATA = "goodness-of-fit", "homogeneity", "conditional-independence"
# Tables that a bootstrap draws unless another number is asked for.
_DRAWN = 1999


class SampleColumns(TypedDict, total=False):
    """Keywords that describe a sample, as :meth:`Reports.table` and :meth:`Reports.test` have them, too.

    ``weights``, ``strata`` and ``clusters`` are public columns, beside those that the design and the release name;
    ``single_cluster`` says what a stratum with one cluster does; ``unweighted`` ignores the sample.
    """

    weights: str | None
    strata: str | None
    clusters: str | None
    single_cluster: Single
    unweighted: bool


class Reports(OpenedRecords):
    """Randomized records and what they were asked by; each method is one analysis of them.

    Every method imports what it needs when it is called. Errors are :class:`optrr.InvalidInput`: for records of another design,
    for attributes that the design does not know, and as the function says that an analysis calls.
    """

    asking: Any
    """What the people were asked by: a design, or another way of asking (:class:`optrr.core.design.design.Asking`)."""

    def table(  # noqa: PLR0913 (each argument is one question a user answers)
        self,
        *attributes: str,
        among: Among | None = None,
        complete_cases: bool = False,
        ignorable: str | None = None,
        method: str = "unbiased",
        weights: str | None = None,
        strata: str | None = None,
        clusters: str | None = None,
        by: str | Iterable[str] = (),
        single_cluster: Single = "refuse",
        unweighted: bool = False,
        confidence: float = 0.95,
        simultaneous: bool = False,
    ) -> Estimate | WeightedEstimate:
        """The true shares of these attributes' categories, with standard errors and intervals.

        Parameters
        ----------
        attributes
            of the table; its axes, in this order.
        among
            by attribute, of the table or not, the categories that people must truly have to count
            (:func:`optrr.analysis.measures.estimate_among`).
        complete_cases
            leave out people who gave no answer to an attribute of the table or of ``among``: those that declare a missing value
            (:mod:`optrr.analysis.measures.among`).
        ignorable
            an attribute whose missing answers depend on the table's other attributes alone, as you declare: the table is then
            that of everybody (:mod:`optrr.analysis.measures.shares`).
        method
            "unbiased", "norm-sub", "clip", "mle", "ibu" or "adjusted" (:func:`optrr.core.estimation.estimator.estimate`).
        weights, strata, clusters, by, single_cluster, unweighted
            public columns that describe the sample, beside those that the design and the release name
            (:func:`optrr.analysis.weighting.estimate_weighted`); ``unweighted`` ignores them. ``by`` has no ``among``
            beside it.
        confidence, simultaneous
            of the intervals: each cell alone, or all of them together.
        """
        asked, groups = PublicColumns(weights, strata, clusters), (by,) if isinstance(by, str) else tuple(by)
        sample = self._sample(asked, groups, unweighted)
        intervals: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
        some = {"among": among is not None, "complete_cases": complete_cases, "ignorable": ignorable is not None}
        restricted = any(some.values())
        own = {
            next((name for name, given in some.items() if given), "among"): restricted,
            "method": method != "unbiased",
        }
        chosen = [name for name, given in own.items() if given]
        # who counts goes with a sample, but not with a table for each group of it
        apart = [name for name in chosen if groups or name == "method"] if sample else []
        if len(chosen) > 1 or apart:
            beside = "the public columns of a sample" if apart else chosen[-1]
            raise InvalidInput(f"a table takes {(apart or chosen)[0]} or {beside}, not both; leave one out")
        if not self._of_records:
            if sample or own["method"]:
                raise InvalidInput(
                    "answers to questions have unbiased tables, without a sample's columns; leave these out, or ask for whole "
                    "records, with a design"
                )
            if not restricted:
                return self._cells(attributes, confidence, simultaneous)
        if restricted:
            from optrr.analysis.measures.among import restriction
            from optrr.analysis.measures.shares import estimate_among

            names, kept = restriction(self.asking.domain, attributes, among, complete_cases, ignorable)
            intervals |= {"attributes": attributes, "ignorable": ignorable}
            return estimate_among(*self._told(names, sample, single_cluster), kept, **intervals)
        if sample:
            from optrr.analysis.weighting import estimate_weighted

            how: dict[str, Any] = {
                "weights": sample.weight,
                "strata": sample.stratum,
                "clusters": sample.cluster,
                "by": groups,
            }
            self._warn(ignoring=None if unweighted else NONE)
            return estimate_weighted(
                self._place(), self._mechanism, attributes, single_cluster=single_cluster, **how, **intervals
            )
        self._warn()
        if method == "adjusted":
            from optrr.core.estimation.estimator import estimate_adjusted

            return estimate_adjusted(self._place(), self._mechanism, attributes, **intervals)
        counts = self._counts(attributes)
        from optrr.core.estimation.estimator import estimate

        return estimate(counts, self._mechanism, method=method, **intervals)

    def tables(self, *tables: Sequence[str], confidence: float = 0.95, **how: Any) -> list[Any]:
        """Several tables whose intervals all hold together with this confidence, by Bonferroni's inequality.

        Each of k tables is that of :meth:`table` with all its cells together and 1 − (1 − confidence)/k, which it shows.
        """
        if not tables:
            raise InvalidInput(
                "no table is asked for; name the attributes of each, such as ['sex', 'income'], ['race']"
            )
        from optrr.core.estimation.estimator import check_confidence

        check_confidence(confidence)
        if not how.pop("simultaneous", True):
            raise InvalidInput(
                "several tables have intervals that all hold together; for one table's alone ask for table()"
            )
        each = 1 - (1 - confidence) / len(tables)
        return [self.table(*_names(names), confidence=each, simultaneous=True, **how) for names in tables]

    def measure(  # noqa: PLR0913 (each argument is one question a user answers)
        self,
        name: str,
        *attributes: str,
        reference: Category | None = None,
        reference_outcome: Category | None = None,
        among: Among | None = None,
        complete_cases: bool = False,
        ignorable: str | None = None,
        scores: Any = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        **sample: Unpack[SampleColumns],
    ) -> Measures | Derived:
        """One attribute within the groups of another, or one number of a table, with intervals.

        Parameters
        ----------
        name
            "row-shares", "column-shares", "risk-difference", "risk-ratio", "odds-ratio", "means", "mean-difference", "gamma",
            "tau-b" or "somers-d" of GROUPS and OUTCOMES (:func:`optrr.analysis.measures.measure`); or "entropy",
            "mutual-information", "chi-square", "g-square", "correlation" or "cramers-v" of a table
            (:func:`optrr.core.estimation.derived.derive`).
        attributes
            two, groups first; of an entropy any number.
        reference, reference_outcome, scores
            what groups and outcomes are compared with, the first declared one unless given; the outcomes' numbers.
        among, complete_cases, ignorable
            who counts, as in :meth:`table`.
        sample
            how records were sampled (:class:`SampleColumns`), for measures of two attributes.
        """
        from optrr.core.estimation.derived import derive
        from optrr.core.estimation.statistics import STATISTICS

        if name in STATISTICS:
            self._warn()
            given: dict[str, Any] = {"reference": reference, "reference_outcome": reference_outcome, "among": among}
            given |= {"complete_cases": complete_cases or None, "ignorable": ignorable}
            given |= {key: value for key, value in sample.items() if key != "unweighted"}
            chosen = [
                each for each, value in {**given, "simultaneous": simultaneous or None}.items() if value is not None
            ]
            if chosen:
                raise InvalidInput(f"{name} is one number of a table and takes no {chosen[0]}; leave it out")
            return derive(*self._table(attributes), name, confidence=confidence, scores=scores)  # type: ignore[arg-type]
        from optrr.analysis.measures import Comparing, measure
        from optrr.analysis.measures.among import restriction

        comparing = Comparing(reference, reference_outcome, scores)
        names, kept = restriction(self.asking.domain, attributes, among, complete_cases, ignorable)
        how: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous, "among": kept}
        how["ignorable"] = ignorable
        return measure(*self._sampled(names, **sample), name, comparing, **how)  # type: ignore[arg-type]  # names are checked there

    def share(
        self,
        attribute: str,
        categories: Category | Sequence[Category],
        *,
        among: Among | None = None,
        complete_cases: bool = False,
        confidence: float = 0.95,
        **sample: Unpack[SampleColumns],
    ) -> Measures:
        """The share of people with some of an attribute's categories, of all or of those ``among`` others.

        ``share("income", ">50K", among={"sex": "F", "age": ["30-39", "40-49"]})``; ``complete_cases`` and
        ``sample`` as in :meth:`measure`.
        """
        wanted: dict[str, Any] = {"of": {attribute: categories}, "among": among or {}}
        return self.contrast(wanted, complete_cases=complete_cases, confidence=confidence, **sample)

    def contrast(
        self,
        *shares: WeightedShare | Mapping[str, Any],
        complete_cases: bool = False,
        confidence: float = 0.95,
        **sample: Unpack[SampleColumns],
    ) -> Measures:
        """A sum of shares with weights, in one sub-population or several (:func:`optrr.analysis.measures.contrast`).

        ``contrast({"of": {"income": ">50K"}, "among": {"sex": "F"}}, {"of": {"income": ">50K"}, "among": {"sex": "M"},
        "weight": -1})`` is the difference between women and men.
        """
        from optrr.analysis.measures.shares import contrast, names_of, read_shares

        wanted = read_shares(shares)
        told = self._sampled(names_of(wanted), **sample)
        return contrast(*told, wanted, complete_cases=complete_cases, confidence=confidence)

    def quantiles(  # noqa: PLR0913 (each argument is one question a user answers)
        self,
        attribute: str,
        probabilities: float | Sequence[float] = 0.5,
        *,
        among: Among | None = None,
        scores: ArrayLike | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        **sample: Unpack[SampleColumns],
    ) -> Measures:
        """Quantiles of an attribute of bins, numbers or ordered categories (:func:`optrr.analysis.measures.quantiles`)."""
        from optrr.analysis.measures.among import restriction
        from optrr.analysis.measures.quantile import quantiles

        names, kept = restriction(self.asking.domain, (attribute,), among, False)
        how: dict[str, Any] = {"among": kept, "scores": scores, "confidence": confidence, "simultaneous": simultaneous}
        return quantiles(*self._sampled(names, **sample), probabilities, **how)

    def test(  # noqa: PLR0913 (each argument is one question a user answers)
        self,
        *attributes: str,
        hypothesis: str | None = None,
        given: str | Iterable[str] = (),
        proportions: ArrayLike | None = None,
        scores: GivenScores | None = None,
        complete_cases: bool = False,
        weights: str | None = None,
        strata: str | None = None,
        clusters: str | None = None,
        single_cluster: Single = "refuse",
        unweighted: bool = False,
        calibration: str = "auto",
        bootstrap: int = _DRAWN,
        random_state: Seed = None,
    ) -> TestResult:
        """A hypothesis about the true records, tested.

        Parameters
        ----------
        attributes
            that the hypothesis is about: two for an association.
        hypothesis
            "independence" (unless something else follows from what is given), "trend", "genotypic" or "likelihood-ratio"
            (:func:`optrr.core.inference.test`); with ``given`` "conditional-independence",
            "common-association", "common-trend" or "same-odds-ratios" (:func:`optrr.analysis.stratified_test`);
            "goodness-of-fit" with ``proportions``; "homogeneity" of reports that were opened from several places, which are
            groups of people.
        given
            the attributes whose categories together are the strata.
        complete_cases
            leave out people with a missing value; else it counts as a category (:mod:`optrr.analysis.complete_cases`). For the
            hypotheses of :data:`optrr.analysis.estimated.TESTS_OF_ANSWERS`, without a sample or a calibration.
        weights, strata, clusters, single_cluster, unweighted
            of a sample, for independence (:func:`optrr.analysis.weighted.test_weighted`).
        calibration, bootstrap
            of associations without strata or a sample: where the p-value comes from, and how many tables a bootstrap draws
            (:func:`optrr.core.inference.test`). Elsewhere they are refused.
        """
        within = (given,) if isinstance(given, str) else tuple(given)
        asked = PublicColumns(weights, strata, clusters)
        name = hypothesis or self._hypothesis(within, proportions)
        stated = {_GOODNESS: proportions is not None, _HOMOGENEITY: len(self.given) > 1}
        for special, is_stated in stated.items():
            if is_stated != (name == special):
                needs = "``proportions``" if special == _GOODNESS else "reports of several groups"
                raise InvalidInput(f"{special} goes with {needs}, and {name!r} does not; give both or neither")
        drawn: dict[str, Any] = {"random_state": random_state}
        sample = self._sample(asked, (), unweighted) if name == "independence" and not within else NONE
        names = [*attributes, *within]
        complete = complete_cases and self._incomplete(names, sample)
        missing = said_missing(self.asking.domain, names, complete)
        if sample or within or name in stated:
            _check_left_out(name, calibration, bootstrap, None if within else scores)
        if sample:
            from optrr.analysis.weighted import test_weighted

            how: dict[str, Any] = {"weights": sample.weight, "strata": sample.stratum, "clusters": sample.cluster}
            self._warn(ignoring=NONE)
            result = test_weighted(self._place(), self._mechanism, attributes, single_cluster=single_cluster, **how)
            return replace(result, missing=missing)
        if asked:
            raise InvalidInput(
                f"a sample's weights, strata and clusters count in independence, not in {name}; leave them out"
            )
        self._warn()
        if complete or not self._of_records:
            from optrr.analysis.estimated import test_estimated

            if calibration not in ("auto", "asymptotic"):
                raise InvalidInput(
                    f"p-values of complete cases and of answers to questions are those of χ²; leave out the calibration "
                    f"{calibration!r}"
                )
            result = test_estimated(self._estimated(names, complete), name, scores=scores, proportions=proportions)
            return replace(result, missing=missing)
        from optrr.core.inference.homogeneity import goodness_of_fit, homogeneity
        from optrr.core.inference.testing import test

        if name == _HOMOGENEITY:
            result = homogeneity(self.counts(attributes), self._mechanism, **drawn)
        elif name == _GOODNESS:
            result = goodness_of_fit(self._counts(attributes), self._mechanism, proportions, **drawn)  # type: ignore[arg-type]  # it is stated
        elif within:
            from optrr.analysis.loglinear.comparing import stratified_test

            result = stratified_test(self._counts(names), self._mechanism, name, random_state, scores)  # type: ignore[arg-type]
        else:
            drawn |= {"scores": scores, "calibration": calibration, "bootstrap": bootstrap}
            result = test(self._counts(names), self._mechanism, name, **drawn)  # type: ignore[arg-type]  # names are checked there
        return replace(result, missing=missing)

    def tests(self, tests: Iterable[Sequence[str]], *, adjust: Adjustment = "holm", **how: Any) -> TestFamily:
        """Several hypotheses of one kind, with p-values adjusted for their number (:mod:`optrr.core.inference.result`).

        Parameters
        ----------
        tests
            the attributes of each, as :meth:`test` takes them: ``[("sex", "income"), ("race", "income")]``.
        adjust
            "holm" or "bonferroni" for the chance of any wrong rejection, "bh" for the share of wrong ones among all.
        how
            what :meth:`test` takes beside the attributes, for each of them.
        """
        from optrr.core.inference.result import check_distinct, family

        names = [_names(each) for each in tests]
        check_distinct(names, how.get("proportions") is not None)
        return family(names, [self.test(*each, **how) for each in names], adjust)

    def _hypothesis(self, within: Sequence[str], proportions: ArrayLike | None) -> str:
        if within:
            return _WITHIN_STRATA
        if proportions is not None:
            return _GOODNESS
        return _HOMOGENEITY if len(self.given) > 1 else "independence"

    def model(  # noqa: PLR0913 (each argument is one question a user answers)
        self,
        terms: str | None = None,
        *,
        attributes: Iterable[str] = (),
        stepwise: int | None = None,
        complete_cases: bool = False,
        confidence: float = 0.95,
        simultaneous: bool = False,
    ) -> LogLinear:
        """A log-linear model of the true table: odds ratios with everything else in the model.

        Parameters
        ----------
        terms
            which attributes interact, such as "a*b + c"; a set includes its subsets.
        attributes
            of the table; by default those in ``terms``.
        stepwise
            in place of ``terms``: the best model by BIC of interactions up to this order.
        complete_cases
            leave out people with a missing value, as in :meth:`test`; with ``terms`` alone.
        """
        from optrr.analysis.loglinear.estimating import fit_loglinear
        from optrr.analysis.loglinear.estimating import stepwise as search
        from optrr.analysis.loglinear.fitting import parse_terms, split_terms

        if (terms is None) == (stepwise is None):
            raise InvalidInput(
                "a model is given by terms, such as 'a*b + c', or searched with stepwise=2; give one of them"
            )
        names = tuple(attributes) or tuple(dict.fromkeys(name for each in split_terms(terms or "") for name in each))
        self._warn()
        how: dict[str, Any] = {"confidence": confidence, "simultaneous": simultaneous}
        complete = complete_cases and self._incomplete(names)
        if complete or not self._of_records:
            from optrr.analysis.estimated import model_estimated

            if terms is None:
                raise InvalidInput(
                    "models of complete cases and of answers to questions are given by terms, such as 'a*b + c'; search is "
                    "for whole records"
                )
            table = self._estimated(names, complete)
            return model_estimated(table, parse_terms(terms, table.domain), **how)
        counts = self._counts(names)
        if terms is None:
            return search(counts, self._mechanism, stepwise, **how)  # type: ignore[arg-type]  # it is given
        return fit_loglinear(counts, self._mechanism, parse_terms(terms, counts.domain), **how)

    def regress(  # noqa: PLR0913 (each argument is one question a user answers)
        self,
        formula: str,
        *,
        family: str | None = None,
        public: Iterable[str | Attribute] = (),
        scores: Mapping[str, ArrayLike] | None = None,
        complete_cases: bool = False,
        weights: str | None = None,
        strata: str | None = None,
        clusters: str | None = None,
        single_cluster: Single = "refuse",
        unweighted: bool = False,
        confidence: float = 0.95,
        progress: Callable[[float], None] | None = None,
    ) -> Regression:
        """A linear, logistic, ordered or multinomial regression of the true records (:func:`optrr.analysis.regress`).

        ``public`` names predictors that were not randomized, which stand beside the attributes; ``progress`` is called with
        the share of the work that is done. ``weights``, ``strata``, ``clusters``, ``single_cluster`` and ``unweighted`` are of
        a sample, as :meth:`table` has them; the regression is then the population's. ``complete_cases`` leaves out people with
        a missing value, as in :meth:`test`; without a sample, and for randomized predictors.
        """
        from optrr.analysis.regression.formulas import Formula

        how: dict[str, Any] = {"family": family, "scores": scores, "confidence": confidence, "progress": progress}
        names = [each for each in Formula.of(formula).names if each in self.asking.domain.names]
        sample = NONE
        if self._of_records:
            sample = self._sample(PublicColumns(weights, strata, clusters), (), unweighted)
        elif weights or strata or clusters or unweighted or single_cluster != "refuse":
            raise InvalidInput(
                "answers to questions have no weights, strata and clusters; leave these out, or ask for whole records"
            )
        complete = complete_cases and self._incomplete(names, sample)
        self._warn(ignoring=NONE if sample else None)
        if complete or not self._of_records:
            from optrr.analysis.estimated import NO_PUBLIC, regress_estimated

            if tuple(public):
                raise InvalidInput(NO_PUBLIC)
            table = self._estimated(Formula.of(formula).names, complete, partly=not complete)
            return regress_estimated(table, formula, **how)
        from optrr.analysis.regression.fitting import regress

        how |= {"weights": sample.weight, "strata": sample.stratum, "clusters": sample.cluster}
        return regress(self._place(), self._mechanism, formula, public=public, single_cluster=single_cluster, **how)

    def synthesize(  # noqa: PLR0913 (each argument is one question a user answers)
        self,
        size: int | None = None,
        *,
        attributes: str | Iterable[str] | None = None,
        keep: str | Iterable[str | Sequence[str]] = (),
        sets: int = 1,
        confidence: float = 0.95,
        random_state: Seed = None,
    ) -> Synthetic:
        """Records to hand on, drawn from a model of the estimated pair tables (:func:`optrr.analysis.synthesize`).

        ``keep`` names regressions and tables that they keep beside pairs: ``keep=["income ~ sex + age", "sex*race*income"]``.
        Of several ``sets``, what is computed from each is combined (:func:`optrr.analysis.combine`), with intervals that hold.
        """
        from optrr.analysis.synthesis.drawing import synthesize

        self._warn()
        how: dict[str, Any] = {"keep": keep, "sets": sets, "size": size}
        how |= {"random_state": random_state, "confidence": confidence}
        return synthesize(self._place(), self._mechanism, attributes, **how)

    def poisoning(self, *attributes: str, fakes: int, method: str = "unbiased") -> Poisoning:
        """How far this many fake reports can move a table (:func:`optrr.core.estimation.poisoned.poisoning`)."""
        from optrr.core.estimation.poisoned import poisoning

        if not self._of_records:
            moved: Poisoning = self.asking.poisoning(self._alone(), attributes, fakes)
            return moved
        return poisoning(self._counts(attributes), self._mechanism, fakes, method)

    def pooled(self, pool: Pool, *attributes: str) -> Reports:
        """The same reports, with categories of attributes pooled as "(rest)" in every analysis, which says so.

        ``pool`` is a share, such as 0.01 or "1%": the categories of ``attributes``, all unless given, whose estimated shares
        are below it; or by attribute the categories themselves, which nothing in the records decides
        (:func:`optrr.analysis.collapsed.pooled`).
        """
        from optrr.analysis.collapsed import pooled

        return pooled(self, pool, attributes)

    @property
    def _of_records(self) -> bool:
        """Whether these are randomized records; answers to questions are none, whatever tables they tell about."""
        return hasattr(self.asking, "mechanism")

    @property
    def _mechanism(self) -> Mechanism:
        if not self._of_records:
            raise InvalidInput(
                "answers to questions are no records, and have tables, measures, tests, models and regressions alone; for the "
                "rest ask for whole records, with a design"
            )
        mechanism: Mechanism = self.asking.mechanism
        return mechanism

    def _counts(self, attributes: str | Iterable[str]) -> Counts:
        self._one()
        (counts,) = self.counts(attributes)
        return counts

    def _table(self, attributes: str | Iterable[str]) -> tuple[Counts | CountedTable, Mechanism | None]:
        """What analyses of one table take: counts and what randomized them, or the table estimated from answers."""
        if self._of_records:
            return self._counts(attributes), self._mechanism
        (table,) = self.once(attributes, lambda names: (self.asking.counted(self._alone(), names),))
        return table, None

    def _incomplete(self, names: Iterable[str], sample: PublicColumns = NONE) -> bool:
        """Whether some of these attributes declare a missing value. Raises InvalidInput where none of the design's does."""
        domain = self.asking.domain
        if not any(None in each.codes for each in domain):
            raise InvalidInput(
                "no attribute declares a missing value, and all cases are complete; leave out complete cases"
            )
        incomplete = any(None in each.codes for each in domain.subset(tuple(names)))
        if incomplete and sample:
            raise InvalidInput(
                "complete cases of a weighted or clustered sample have tables and measures, and no tests and models; leave out "
                "complete cases, or ignore the sample (unweighted)"
            )
        return incomplete

    def _estimated(self, names: Sequence[str], complete: bool, partly: bool = False) -> CountedTable:
        """The table of these attributes by its estimate and covariance, of the complete cases or of everybody."""
        from optrr.analysis.complete_cases import complete_table
        from optrr.core.estimation.plausibility import counted_table

        if self._of_records:
            table = counted_table(self._counts(names), self._mechanism)
        else:
            table = self.asking.counted(self._alone(), names, partly=partly)
        return complete_table(table) if complete else table

    def _sampled(  # noqa: PLR0913 (the sample's columns, one by one)
        self,
        attributes: Sequence[str],
        weights: str | None = None,
        strata: str | None = None,
        clusters: str | None = None,
        single_cluster: Single = "refuse",
        unweighted: bool = False,
    ) -> tuple[Counts | CountedTable, Mechanism | None]:
        """What :meth:`_told` is told by :class:`SampleColumns`."""
        sample = self._sample(PublicColumns(weights, strata, clusters), (), unweighted)
        if sample and not self._of_records:
            raise InvalidInput(
                "answers to questions have measures without a sample's columns; leave these out, or ask for whole records, "
                "with a design"
            )
        return self._told(attributes, sample, single_cluster)

    def _told(
        self, attributes: Sequence[str], sample: PublicColumns, single_cluster: Single
    ) -> tuple[Counts | CountedTable, Mechanism | None]:
        """What measures take, after the warnings: the table of the sample where there is one, else as :meth:`_table`."""
        self._warn(ignoring=NONE if sample else None)
        if not sample:
            return self._table(attributes)
        from optrr.analysis.weighting.linearised import read_table

        return read_table(self._place(), self._mechanism, attributes, sample, single_cluster), None

    def _cells(self, attributes: Sequence[str], confidence: float, simultaneous: bool) -> Estimate:
        """The cells of a table estimated from answers."""
        from optrr.core.estimation.estimator import check_confidence

        check_confidence(confidence)
        cells = prod(self.asking.domain.subset(attributes).sizes.tolist()) if simultaneous else 1
        estimated: Estimate = self.asking.estimate(self._alone(), attributes, 1 - (1 - confidence) / cells)
        return replace(estimated, confidence=confidence, simultaneous=simultaneous)

    def _place(self) -> Any:
        self._one()
        return self.places[0]

    def _alone(self) -> Reports:
        """These reports, of one place."""
        self._one()
        return self

    def _one(self) -> None:
        if len(self.given) != 1:
            raise InvalidInput(
                f"these reports were opened from {len(self.given)} places, which are groups to be compared; open a list of "
                "them to read them together"
            )

    def _sample(self, asked: PublicColumns, by: Sequence[str], unweighted: bool) -> PublicColumns:
        """The public columns that describe the sample, with the groups; none where they are to be ignored."""
        if unweighted:
            if asked:
                raise InvalidInput(f"unweighted ignores the sample, and {asked.said()} describes it; leave one out")
            return PublicColumns(group=tuple(by))
        known = self.agreed(asked)
        return PublicColumns(known.weight, known.stratum, known.cluster, tuple(by))

    def _warn(self, ignoring: PublicColumns | None = None) -> None:
        """What is in doubt about people who may count twice, and the columns that the analysis ignores."""
        warn([*self.pooled_notes, *self.twice, *(self.public if ignoring is None else ignoring).ignored()])


def said_missing(domain: Domain, names: Sequence[str], complete: bool = False) -> str:
    """What a test of these attributes does with missing values; empty where none declares them."""
    if complete:
        return "complete cases"
    missing = [each.name for each in domain.subset(names) if None in each.codes]
    return f"{MISSING} of {' and of '.join(missing)} counts as a category" if missing else ""


def _check_left_out(name: str, calibration: str, bootstrap: int, scores: GivenScores | None) -> None:
    """Raise InvalidInput for what a test that knows no trend, and chooses where its p-value comes from, would ignore."""
    given = {"calibration": calibration != "auto", "bootstrap": bootstrap != _DRAWN, "scores": scores is not None}
    for option, is_given in given.items():
        if is_given:
            raise InvalidInput(f"{name} of these records takes no {option}, which would be ignored; leave it out")


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def effect(  # noqa: PLR0913 (each argument is one question a user answers)
    design: Any,
    attributes: Sequence[str],
    truth: ArrayLike,
    *,
    hypothesis: str | None = None,
    given: str | Iterable[str] = (),
    proportions: ArrayLike | None = None,
    scores: GivenScores | None = None,
) -> Alternative:
    """The true proportions of some attributes, as what a test of :meth:`Reports.test` is to see; hypotheses as there."""
    within = (given,) if isinstance(given, str) else tuple(given)
    domain = design.domain.subset([*attributes, *within])
    if proportions is not None:
        from optrr.core.inference.power_analysis import goodness_alternative

        return goodness_alternative(truth, proportions, design.mechanism.kernel(attributes))
    if within:
        from optrr.analysis.loglinear.comparing import stratified_alternative

        return stratified_alternative(truth, domain, design.mechanism, hypothesis or _WITHIN_STRATA, scores)  # type: ignore[arg-type]
    from optrr.core.inference.power_analysis import alternative_of

    kernel = design.mechanism.kernel(attributes)
    return alternative_of(hypothesis or "independence", truth, kernel, scores, domain)  # type: ignore[arg-type]


def chance_to_reject(
    design: Any, attributes: tuple[str, ...], truth: ArrayLike, n: float, level: float, **hypothesis: Any
) -> PredictedPower:
    """The chance that a test rejects: :meth:`optrr.Design.power`."""
    from optrr.core.inference.power_analysis import predicted_power

    return predicted_power(effect(design, attributes, truth, **hypothesis), n, level)


def records_to_reject(
    design: Any, attributes: tuple[str, ...], truth: ArrayLike, power: float, level: float, **hypothesis: Any
) -> int:
    """How many people a test needs: :meth:`optrr.Design.records_for`."""
    from optrr.core.inference.power_analysis import required_records

    return required_records(effect(design, attributes, truth, **hypothesis), power, level)
