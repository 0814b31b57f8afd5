"""How a request becomes an answer: the table that an address means, forms, pages and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tulle._app import jobs, views
from tulle._app.study import Study, found_in, is_table_name
from tulle.errors import DataError, ParameterError

_FORM = 1 << 20  # bytes of a form

Answer = Callable[[Request, Study], Response]
Form = dict[str, str]
Work = Callable[[Request, Study, Form], Response]


def of(page: Answer) -> Callable[[Request], Response]:
    """Make a route of a page about one table."""

    def answer(request: Request) -> Response:
        return page(request, study_of(request))

    return answer


def doing(work: Work) -> Any:
    """Make a route of work on one table: the form is read first."""

    async def answer(request: Request) -> Response:
        form = await read_form(request)
        study = await run_in_threadpool(study_of, request)
        return await run_in_threadpool(work, request, study, form)

    return answer


def study_of(request: Request) -> Study:
    """Return the table or other file that the address means."""
    found = found_in(request.app.state.root, request.path_params["id"])
    if found is None:
        raise DataError("this file is not in the folder any more: go back to the start")
    return found


async def read_form(request: Request) -> Form:
    """Read a form as browsers send it; what is given twice counts once."""
    body = b""
    async for block in request.stream():
        body += block
        if len(body) > _FORM:
            raise ParameterError(f"a form of more than {_FORM:,} bytes is not read")
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=5000)
    return {name: values[-1].strip() for name, values in fields.items()}


def shown(template: str, study: Study | None, *, status: int = 200, **more: Any) -> HTMLResponse:
    """Return a whole page."""
    jobs.reap()
    return HTMLResponse(views.rendered(template, study, **more), status)


def live_page(
    request: Request, study: Study, step: str, template: str = "", **more: Any
) -> HTMLResponse:
    """Return a page, or for a page that asks what is new, its changing part and the strip."""
    name = template or step
    if not request.headers.get("hx-request"):
        return shown(f"{name}.html", study, step=step, **more)
    jobs.reap()
    live = views.rendered(f"live_{name}.html", study, step=step, **more)
    return HTMLResponse(live + views.rendered("strip.html", study, **more, again=True))


def to(study: Study, page: str) -> RedirectResponse:
    """Send the browser to a page of the same table."""
    return RedirectResponse(f"/t/{study.id}/{page}", 303)


def not_found(request: Request, error: Exception) -> Response:
    """Say that an address means nothing."""
    return shown("error.html", None, status=404, message="This page does not exist.", back="/")


def wrong(request: Request, error: Exception) -> Response:
    """Say what a person did wrong, with the way back: messages name columns, never values."""
    study = found_in(request.app.state.root, request.path_params.get("id", ""))
    study = study if study is not None and is_table_name(study.source.name) else None
    before = urlsplit(request.headers.get("referer", "")).path
    back = before if before.startswith("/t/") else f"/t/{study.id}" if study else "/"
    return shown("error.html", study, status=400, message=str(error), back=back)


def broken(request: Request, error: Exception) -> Response:
    """Show only the type of a foreign error: its text may quote a cell."""
    message = f"Something unexpected happened ({type(error).__name__}). Nothing was lost."
    return shown("error.html", None, status=500, message=message, back="/")


def number_in(form: Form, name: str) -> int:
    """Return a whole number of a form."""
    if not form.get(name, "").isdigit():
        raise ParameterError(f"choose a {name}")
    return int(form[name])


def needs(there: bool, message: str) -> None:
    """Raise if a page is asked for before its time."""
    if not there:
        raise DataError(message)
