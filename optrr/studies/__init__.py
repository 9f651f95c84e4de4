"""What only the papers' comparisons need.

``graphs`` of ties between people, ``secure_sum`` of counts, ``laplace`` and other additive noise as distortion matrices,
``merging`` of categories and attributes, and ``demonstration``, the main job on the Adult data (optrr demo).
"""
