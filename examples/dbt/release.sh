#!/bin/sh
# After `dbt build`: condense the model `patients`, keep a tenth of the people apart, write the
# release back beside it, and stop the pipeline (exit code 1) where the verdict is bad.
set -eu
database=${DATABASE:?such as postgresql://host/db}

tulle condense "$database#patients" -o "$database#patients_release" -k 20 \
      --policy policy.toml --holdout 10% --report report.html --force
tulle verify "$database#patients_release"
dbt test --select release_is_verified
