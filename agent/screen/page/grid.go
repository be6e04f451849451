package page

import "strings"

// Style is how a cell looks. A page says everything without it, too: terminals may show none.
type Style byte

// Styles.
const (
	Plain Style = iota
	Bold
	// Reverse is dark on bright.
	Reverse
)

// Cell is one place of a grid: a printable character of ASCII.
type Cell struct {
	Char  byte
	Style Style
}

// Grid is what a terminal shows.
type Grid struct {
	Width, Height int
	cells         []Cell
}

// NewGrid is an empty one.
func NewGrid(width, height int) *Grid {
	g := &Grid{Width: max(width, 1), Height: max(height, 1)}
	g.cells = make([]Cell, g.Width*g.Height)
	for i := range g.cells {
		g.cells[i].Char = ' '
	}
	return g
}

// At is one cell; one outside is blank.
func (g *Grid) At(x, y int) Cell {
	if x < 0 || y < 0 || x >= g.Width || y >= g.Height {
		return Cell{Char: ' '}
	}
	return g.cells[y*g.Width+x]
}

// put writes a text into a row, cleans it, leaves out what goes beyond the edge, and returns where it ended.
func (g *Grid) put(x, y int, text string, style Style) int {
	for _, c := range []byte(Clean(text)) {
		if x >= 0 && x < g.Width && y >= 0 && y < g.Height {
			g.cells[y*g.Width+x] = Cell{Char: c, Style: style}
		}
		x++
	}
	return x
}

// bar fills a row with a style.
func (g *Grid) bar(y int, style Style) {
	g.put(0, y, strings.Repeat(" ", g.Width), style)
}

// String is the text of the grid, without styles and without blanks at the ends of lines.
func (g *Grid) String() string {
	var b strings.Builder
	for y := range g.Height {
		row := make([]byte, g.Width)
		for x := range row {
			row[x] = g.At(x, y).Char
		}
		b.WriteString(strings.TrimRight(string(row), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
