"""Let Tulle choose the group size, and look at the curve."""

from sklearn.datasets import load_breast_cancer

from tulle import GroupSizeSearch

X, y = load_breast_cancer(return_X_y=True)
search = GroupSizeSearch(strategy="grid", sizes=4, min_group=10, repeats=1, random_state=0).fit(
    X, y
)
print(search.reason_)
print(search.results_)
X_new, y_new = search.sample()
print(X_new.shape, search.best_estimator_.counts_.min())
