from tools.commands.capture.capture import svg, visible


def test_what_was_drawn_over_is_gone() -> None:
    assert visible("programming 10 %\rprogramming 100 %\nverified\r\n") == "programming 100 %\nverified\n"
    assert visible("\x1b[H\x1b[Jold\n\x1b[H\x1b[Jnew\n") == "new\n"


def test_a_picture_is_the_same_every_time_and_needs_nothing_from_the_web() -> None:
    picture = svg("command --option", "\x1b[31mred\x1b[0m output\n", "name")
    assert "red" in picture and "command" in picture
    assert picture == svg("command --option", "\x1b[31mred\x1b[0m output\n", "name")
    assert "url(" not in picture.replace("url(#name", "")
