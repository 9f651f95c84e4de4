"""What only the papers' comparisons need.

``graphs`` of ties between people, ``secure_sum`` of counts, ``laplace`` and other additive noise as distortion matrices,
``merging`` of categories and attributes.
"""
