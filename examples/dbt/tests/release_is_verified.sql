-- A singular test of dbt: it fails if a row comes back. The manifest of a release is the only row
-- of the table beside it; its verdict on privacy must be there, and must not be bad.
select manifest
from {{ source('tulle', 'patients_release_manifest') }}
where (cast(manifest as json) -> 'verdict' -> 'privacy' ->> 'level') is null
   or (cast(manifest as json) -> 'verdict' -> 'privacy' ->> 'level') = 'bad'
