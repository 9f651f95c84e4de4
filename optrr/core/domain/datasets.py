"""Bundled data: the nine categorical attributes of the Adult census records.

Source: UCI Machine Learning Repository, "Adult" (Barry Becker and Ronny Kohavi, 1996), https://doi.org/10.24432/C5XW20,
licence CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). Changes: the nine categorical columns only, of
the 32,561 training records; ``?`` (not stated) stays a category. ``benchmarks/make_data.py`` makes the file.
"""

import gzip
from importlib.resources import files

import pyarrow as pa
import pyarrow.csv as pa_csv

from optrr.core.domain.domain import Domain

_CATEGORIES = {
    "workclass": "? Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay",
    "education": "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm "
    "Bachelors Masters Prof-school Doctorate",
    "marital-status": "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated "
    "Widowed",
    "occupation": "? Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
    "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
    "Transport-moving",
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "native-country": "? Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France "
    "Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan "
    "Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South "
    "Taiwan Thailand Trinadad&Tobago United-States Vietnam Yugoslavia",
    "income": "<=50K >50K",
}

ADULT_EIGHT = tuple(name for name in _CATEGORIES if name != "native-country")
"""The eight attributes that multi-dimensional randomized response (MDR §6) is evaluated on."""


def adult_domain() -> Domain:
    """Return the domain of Adult's nine attributes.

    Sizes 9, 16, 7, 15, 6, 5, 2, 42, 2; education in order of schooling, others alphabetical.
    """
    return Domain.of({name: categories.split() for name, categories in _CATEGORIES.items()})


def adult() -> pa.Table:
    """Read Adult's 32,561 records as nine columns of text."""
    packed = (files("optrr.core.domain") / "data" / "adult.csv.gz").read_bytes()
    convert = pa_csv.ConvertOptions(column_types=dict.fromkeys(_CATEGORIES, pa.string()), strings_can_be_null=False)
    return pa_csv.read_csv(pa.BufferReader(gzip.decompress(packed)), convert_options=convert)
