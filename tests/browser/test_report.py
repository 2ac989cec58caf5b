# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report page as a reader uses it: opened, clicked, printed, on a phone, in the dark."""

import re
import xml.etree.ElementTree as xml

import pytest

FIGURES = ["cost-by-wss", "cost-by-length", "delay-by-length", "access-time", "length-got",
           "disturbance-budget", "closing-balance"]


def series_shown(page, figure):
    """The number of series of a figure that are drawn and not switched off."""
    return page.evaluate("""(id) => {
        const { chart } = corehop.charts.find((entry) => entry.figure.id === id);
        const option = chart.getOption(), off = option.legend[0].selected || {};
        return option.series.filter((it) => off[it.name] !== false).length;
    }""", figure)


def extent(page, figure, axis="xAxis"):
    return page.evaluate("""([id, axis]) => {
        const { chart } = corehop.charts.find((entry) => entry.figure.id === id);
        return chart.getModel().getComponent(axis).axis.scale.getExtent();
    }""", [figure, axis])


def axis_name(page, figure, axis="yAxis"):
    return page.evaluate("""([id, axis]) => {
        const { chart } = corehop.charts.find((entry) => entry.figure.id === id);
        return chart.getOption()[axis][0].name;
    }""", [figure, axis])


def luminance(page, selector):
    colour = page.locator(selector).first.evaluate("(it) => getComputedStyle(it).backgroundColor")
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3


@pytest.mark.parametrize("name", ["whole", "torn", "hostile"])
def test_a_page_opens_without_error_or_request_and_draws_all_its_figures(visit, reports, name):
    page = visit(name)
    assert reports[name].stat().st_size > 50_000
    plots = page.locator("figure.chart .plot")
    assert plots.count() > 0
    for plot in plots.all():
        assert plot.locator("svg path, canvas").count() > 0


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


def test_the_page_begins_with_the_answer_and_the_picture_with_its_legend(visit):
    page = visit()
    answer = page.locator("header .answer").inner_text()
    assert re.search(r"a preemption costs [\d.]+ µs", answer), answer
    # One sentence for each company: costs of different companies are not compared.
    assert "leaving the CPU (the control) costs" in answer.split(". ")[0] and answer.count(". ") <= 2, answer
    figure = page.locator("figure.chart").first
    assert figure.get_attribute("id") == "cost-by-wss"
    # Above the fold of a screen of 900 pixels.
    assert figure.bounding_box()["y"] < 900
    legend = figure.locator(".key").inner_text()
    for meaning in ("median", "max: the largest value", "95 % interval", "cache size"):
        assert meaning in legend, legend


def test_units_statistics_and_axes_can_be_switched(visit):
    page = visit()
    figure = page.locator("#cost-by-wss")
    assert axis_name(page, "cost-by-wss") == "delay in µs"
    figure.get_by_role("button", name="µs/KiB").click()
    assert "per KiB" in axis_name(page, "cost-by-wss")
    before = series_shown(page, "cost-by-wss")
    figure.get_by_role("button", name="mean", exact=True).click()
    assert series_shown(page, "cost-by-wss") > before
    figure.get_by_role("button", name="linear").click()
    assert page.evaluate("corehop.charts[0].chart.getOption().yAxis[0].type") == "value"


def test_another_selection_shows_other_data(visit):
    page = visit()
    data = "JSON.stringify(corehop.charts[0].chart.getOption().series.map((it) => it.data.length))"
    before = page.evaluate(data)
    page.locator("#cost-by-wss select").select_option(index=1)
    assert page.evaluate(data) != before


def test_a_click_on_the_legend_switches_an_event_off_with_all_its_lines(visit):
    page = visit()
    before = series_shown(page, "cost-by-wss")
    page.locator("#cost-by-wss svg text", has_text=re.compile("^flush$")).click()
    after = series_shown(page, "cost-by-wss")
    # The median, its intervals, and the greatest.
    assert before - after == 3


def test_dragging_zooms_and_the_button_takes_it_back(visit):
    page = visit()
    plot = page.locator("#cost-by-wss .plot")
    plot.scroll_into_view_if_needed()
    box, whole = plot.bounding_box(), extent(page, "cost-by-wss")
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.4 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.7 * box["height"], steps=8)
    page.mouse.up()
    page.wait_for_function("""(whole) => {
        const { scale } = corehop.charts[0].chart.getModel().getComponent("xAxis").axis;
        return scale.getExtent()[1] - scale.getExtent()[0] < 0.5 * (whole[1] - whole[0]);
    }""", arg=whole)
    page.locator("#cost-by-wss .reset").click()
    assert extent(page, "cost-by-wss") == whole


def test_a_point_tells_its_values_where_the_mouse_is(visit):
    page = visit()
    at = page.evaluate("""() => {
        const { chart } = corehop.charts.find((entry) => entry.figure.id === "access-time");
        chart.getDom().scrollIntoView({ block: "center", behavior: "instant" });
        const [x, y] = chart.convertToPixel({ seriesIndex: 0 }, chart.getOption().series[0].data[3].value);
        const box = chart.getDom().getBoundingClientRect();
        return [box.x + x, box.y + y];
    }""")
    page.mouse.move(at[0] - 30, at[1] - 30)
    page.mouse.move(*at, steps=4)
    hint = page.locator("#access-time .plot > div", has_text="walks")
    hint.wait_for(state="visible")
    assert "WSS: 32 KiB" in hint.inner_text()


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
    for plot in page.locator(".plot").all():
        assert plot.bounding_box()["width"] <= 360


def test_on_paper_it_has_pages_and_every_table(visit):
    page = visit(color_scheme="dark")
    pdf = page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page[^s]", pdf)) >= 4
    assert page.evaluate("document.querySelectorAll('details.table[open]').length") \
        < page.evaluate("document.querySelectorAll('details.table').length"), "afterwards as before"


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
    marks = page.evaluate("""() => {
        const { chart } = corehop.charts.find((entry) => entry.figure.id === "cost-by-length");
        return chart.getOption().series[0].markLine.data.map((mark) => [mark.name, mark.xAxis]);
    }""")
    # 2 MiB are 32,768 lines, one every 110 ns; 32 MiB take longer than the longest length.
    assert [name for name, _ in marks] == ["L2 refilled"]
    assert 3.4 < marks[0][1] < 3.8


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
    assert page.locator("script").count() == 3


def test_a_run_that_was_cut_off_says_so_at_the_top(visit):
    assert "Incomplete" in visit("torn").locator("header .warning").inner_text()
