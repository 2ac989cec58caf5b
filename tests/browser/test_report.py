# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report page as a reader uses it: opened, clicked, printed, on a phone, in the dark."""

import re
import xml.etree.ElementTree as xml

import pytest

FIGURES = ["cost-by-wss", "cost-by-length", "delay-by-length", "access-time", "length-got",
           "disturbance-budget", "closing-balance"]


def drawing(page, figure):
    """The drawing of a figure that is shown on a screen."""
    return page.locator(f"#{figure} .plot:not([hidden]) svg:visible")


def series_shown(page, figure):
    """The lines and clouds of a figure that are drawn and not switched off."""
    return drawing(page, figure).locator(".series:not([display])").count()


def axis_name(page, figure):
    return drawing(page, figure).get_attribute("aria-label")


def luminance(page, selector):
    colour = page.locator(selector).first.evaluate("(it) => getComputedStyle(it).backgroundColor")
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3


KINDS = ["whole", "torn", "hostile", "quick", "conditions", "switches", "study"]


@pytest.mark.parametrize("name", KINDS)
def test_a_page_is_small_and_has_few_screens_and_few_sheets_of_paper(visit, reports, name):
    assert reports[name].stat().st_size <= 400_000
    page = visit(name, folded=True)
    assert page.evaluate("document.documentElement.scrollHeight") <= 4 * 900
    assert sheets(page.pdf(format="A4")) <= 6


def sheets(pdf):
    """The number of pages of a PDF."""
    return len(re.findall(rb"/Type\s*/Page[^s]", pdf))


@pytest.mark.parametrize("name", ["whole", "quick", "switches"])
def test_the_first_screen_has_answer_chart_sureness_and_next_command(visit, name):
    page = visit(name, folded=True)
    for part in ("header .answer", "header .words svg", "header .badge", "header .next code"):
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] <= 900, part
    assert page.locator("header .next code").inner_text().startswith("corehop ")


def test_a_link_to_a_part_opens_its_fold_and_the_others_stay_closed(visit):
    page = visit(folded=True)
    assert page.locator("details.fold[open]").count() == 0
    page.evaluate("location.hash = 'trust'")
    page.locator("#trust > details[open]").wait_for()
    assert page.locator("details.fold[open]").count() == 1
    assert page.locator("#trust li").first.is_visible()


def test_the_chart_in_words_is_saved_as_svg_and_as_pdf_without_scripts(visit, tmp_path):
    page = visit("quick", folded=True, java_script_enabled=False)
    for name in ("SVG", "PDF"):
        with page.expect_download() as download:
            page.locator("header figcaption").get_by_role("link", name=name).click()
        download.value.save_as(tmp_path / name)
    root = xml.parse(tmp_path / "SVG").getroot()
    words = " ".join(node.text or "" for node in root.iter())
    assert "nothing else ran" in words and "another job ran" in words
    pdf = (tmp_path / "PDF").read_bytes()
    assert pdf.startswith(b"%PDF-1.4") and pdf.endswith(b"%%EOF\n") and sheets(pdf) == 1
    assert b"another job ran" in pdf


@pytest.mark.parametrize("name", ["whole", "torn", "hostile"])
def test_a_page_opens_without_error_or_request_and_draws_all_its_figures(visit, reports, name):
    page = visit(name)
    assert reports[name].stat().st_size > 50_000
    plots = page.locator("figure.chart .plot")
    assert plots.count() > 0
    for figure in page.locator("figure.chart").all():
        shown = figure.locator(".plot:not([hidden]) svg:visible")
        assert shown.count() == 1 and shown.locator(".series path").count() > 0


def test_every_figure_has_a_table_of_its_values_under_it(visit):
    page = visit()
    ids = [figure.get_attribute("id") for figure in page.locator("figure.chart").all()]
    assert sorted(ids) == sorted(FIGURES)
    for id in ids:
        tables = page.locator(f"section:has(#{id}) table")
        assert tables.count() > 0 and tables.first.locator("tbody tr").count() > 0, id


def test_the_words_and_tables_are_there_without_scripts(visit):
    page = visit(java_script_enabled=False)
    assert "Cost of preempting and migrating a job" in page.title()
    assert page.locator("#overview table tbody tr").count() >= 6
    assert page.locator("#machine svg").count() == 1
    assert drawing(page, "cost-by-wss").locator(".series path").count() > 10
    assert not page.locator("#cost-by-wss .tools").is_visible()


def test_the_page_begins_with_the_answer_and_the_picture_with_its_legend(visit):
    page = visit()
    answer = page.locator("header .answer").inner_text()
    assert re.search(r"a preemption costs [\d.]+ µs", answer), answer
    # One sentence for each company: costs of different companies are not compared.
    assert "leaving the CPU (the control) costs" in answer.split(". ")[0] and answer.count(". ") <= 2, answer
    figure = page.locator("figure.chart").first
    assert figure.get_attribute("id") == "cost-by-wss"
    legend = figure.locator(".key").inner_text()
    for meaning in ("median", "max: the largest value", "95 % interval", "cache size"):
        assert meaning in legend, legend


def test_units_statistics_and_axes_can_be_switched(visit):
    page = visit()
    figure = page.locator("#cost-by-wss")
    assert "delay in µs by working-set size" in axis_name(page, "cost-by-wss")
    figure.get_by_role("button", name="µs/KiB").click()
    assert "delay in µs per KiB" in axis_name(page, "cost-by-wss")
    before = series_shown(page, "cost-by-wss")
    figure.get_by_role("button", name="mean", exact=True).click()
    assert series_shown(page, "cost-by-wss") > before
    ticks = drawing(page, "cost-by-wss").text_content()
    figure.get_by_role("button", name="linear").click()
    assert figure.get_by_role("button", name="linear").get_attribute("aria-pressed") == "true"
    assert "delay in µs per KiB" in axis_name(page, "cost-by-wss")
    assert drawing(page, "cost-by-wss").text_content() != ticks
    # What was switched on stays on.
    assert series_shown(page, "cost-by-wss") > before


def test_another_selection_shows_other_data(visit):
    page = visit()
    before = drawing(page, "cost-by-wss").inner_html()
    page.locator("#cost-by-wss select").select_option(index=1)
    assert drawing(page, "cost-by-wss").inner_html() != before
    assert "thp" in axis_name(page, "cost-by-wss")
    # A unit that an extract has not drawn gives way to one that is drawn.
    page.locator("#cost-by-wss").get_by_role("button", name="µs/KiB").click()
    assert drawing(page, "cost-by-wss").count() == 1 and "thp" in axis_name(page, "cost-by-wss")


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
def test_a_click_on_the_legend_switches_an_event_off_with_all_its_lines(visit, way):
    page = visit()
    before = series_shown(page, "cost-by-wss")
    name = drawing(page, "cost-by-wss").locator(".name", has_text=re.compile("^flush$"))
    name.click() if way == "mouse" else name.press("Enter")
    # The median with its intervals, and the greatest.
    assert before - series_shown(page, "cost-by-wss") == 2
    assert name.get_attribute("aria-pressed") == "false"
    page.locator("#cost-by-wss").get_by_role("button", name="linear").click()
    assert before - series_shown(page, "cost-by-wss") == 2, "in every drawing of the figure"


def test_a_point_tells_its_values_where_the_mouse_is(visit):
    page = visit()
    point = drawing(page, "access-time").locator(".series g path").nth(3)
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    under = page.evaluate("""([x, y]) => document.elementFromPoint(x, y).querySelector("title")?.textContent""",
                          [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    assert "WSS: 32 KiB" in under and "walks" in under, under


def test_dark_follows_the_system_and_the_button_decides(visit):
    dark = visit(color_scheme="dark")
    assert luminance(dark, "body") < 60 and luminance(dark, "section") < 60
    dark.locator("#theme").click()
    assert luminance(dark, "body") > 200
    light = visit()
    assert luminance(light, "body") > 200
    light.locator("#theme").click()
    assert luminance(light, "section") < 60


def test_a_phone_of_360_pixels_scrolls_down_and_never_sideways(visit):
    page = visit(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page.evaluate("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for plot in page.locator(".plot:not([hidden])").all():
        assert plot.bounding_box()["width"] <= 360
        letters = plot.locator("svg:visible text").first
        assert letters.bounding_box()["height"] >= 9, "letters can be read"


def test_on_paper_it_has_what_is_open_and_the_chart_on_light_ground(visit):
    folded = visit(color_scheme="dark", folded=True)
    few = sheets(folded.pdf(format="A4"))
    assert folded.evaluate("document.documentElement.dataset.theme") is None, "afterwards as before"
    assert few < sheets(visit(color_scheme="dark").pdf(format="A4"))


def test_the_svg_of_a_figure_is_a_drawing_of_its_own(visit, tmp_path):
    page = visit()
    for id in FIGURES:
        with page.expect_download() as download:
            page.locator(f"#{id} .save").click()
        assert download.value.suggested_filename == f"{id}.svg"
        download.value.save_as(tmp_path / "figure.svg")
        root = xml.parse(tmp_path / "figure.svg").getroot()
        tags = [node.tag.split("}")[1] for node in root.iter()]
        assert root.tag.endswith("svg") and tags.count("path") > 10 and "script" not in tags, id
        text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
        assert "var(--" not in text and "#" in text, "colours of its own"


@pytest.mark.parametrize("name", ["machine", "exchange"])
def test_the_drawings_of_the_machine_can_be_saved_too(visit, tmp_path, name):
    page = visit()
    with page.expect_download() as download:
        page.locator(f"#drawing-{name} .save").click()
    assert download.value.suggested_filename == f"{name}.svg"
    download.value.save_as(tmp_path / "drawing.svg")
    assert xml.parse(tmp_path / "drawing.svg").getroot().tag.endswith("svg")


def test_a_sweep_says_where_the_delay_stops_growing_and_marks_what_is_predicted(visit):
    page = visit()
    table = page.locator("#sweep table").first
    assert "stops growing at, ms" in table.inner_text() and table.locator("tbody tr").count() == 2
    marks = drawing(page, "cost-by-length").locator(".mark")
    # 2 MiB are 32,768 lines, one every 110 ns; 32 MiB take longer than the longest length.
    assert marks.count() == 1 and "L2 refilled" in drawing(page, "cost-by-length").inner_html()
    assert 3.4 < float(marks.first.get_attribute("data-x")) < 3.8


def test_the_exchange_of_lines_is_a_heat_map_and_a_table_or_says_what_to_type(visit):
    page = visit()
    section = page.locator("#exchange")
    # Four CPUs: sixteen pairs, shortest and median.
    assert section.locator("svg g > g").count() == 32
    pairs = section.locator("table", has_text="batches").locator("tbody tr")
    assert pairs.count() == 16
    assert section.locator("td.bad", has_text="contradicted").count() == 1
    bare = visit("torn").locator("#exchange")
    assert bare.locator("svg").count() == 0
    assert "corehop measure platform -o FILE.toml" in bare.inner_text()


def test_a_name_that_is_markup_stays_a_name(visit):
    page = visit("hostile")
    assert page.locator("img").count() == 0
    assert page.locator("[onclick], [onerror]").count() == 0
    assert "</script>" in page.locator("h1").inner_text()
    assert page.locator("script").count() == 1


def test_a_run_that_was_cut_off_says_so_at_the_top(visit):
    assert "Incomplete" in visit("torn").locator("header .warning").inner_text()
