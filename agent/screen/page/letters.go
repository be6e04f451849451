package page

import "strings"

// letterWidth and letterHeight are those of a large letter, in cells.
const letterWidth, letterHeight = 5, 5

// letters are large ones for names of nodes (RFC 1123), a row of five cells after the other.
var letters = map[byte]string{
	'A': " ### #   #######   ##   #", 'B': "#### #   ##### #   ##### ", 'C': " #####    #    #     ####",
	'D': "#### #   ##   ##   ##### ", 'E': "######    #### #    #####", 'F': "######    #### #    #    ",
	'G': " #####    #  ###   # ####", 'H': "#   ##   #######   ##   #", 'I': " ###   #    #    #   ### ",
	'J': "  ###   #    # #  #  ##  ", 'K': "#  # # #  ##   # #  #  # ", 'L': "#    #    #    #    #####",
	'M': "#   ### ### # ##   ##   #", 'N': "#   ###  ## # ##  ###   #", 'O': " ### #   ##   ##   # ### ",
	'P': "#### #   ##### #    #    ", 'Q': " ### #   ## # ##  #  ## #", 'R': "#### #   ##### #  # #   #",
	'S': " #####     ###     ##### ", 'T': "#####  #    #    #    #  ", 'U': "#   ##   ##   ##   # ### ",
	'V': "#   ##   ##   # # #   #  ", 'W': "#   ##   ## # ### ###   #", 'X': "#   # # #   #   # # #   #",
	'Y': "#   # # #   #    #    #  ", 'Z': "#####   #   #   #   #####", '0': " ### #  ### # ###  # ### ",
	'1': "  #   ##    #    #   ### ", '2': "####     # ### #    #####", '3': "####     # ###     ##### ",
	'4': "#  # #  # #####   #    # ", '5': "######    ####     ##### ", '6': " ### #    #### #   # ### ",
	'7': "#####   #   #   #    #   ", '8': " ### #   # ### #   # ### ", '9': " ### #   # ####    # ### ",
	'-': "           ###           ", '.': "                      #  ",
}

// large writes a text in large letters, each cell of which is scale wide and high. There is nothing where it is too
// wide, or a letter is missing.
func large(text string, width, scale int) []string {
	text = strings.ToUpper(text)
	if text == "" || len(text)*(letterWidth+1)*scale > width-2 {
		return nil
	}
	rows := make([]string, letterHeight*scale)
	for _, c := range []byte(text) {
		shape, ok := letters[c]
		if !ok {
			return nil
		}
		for y := range rows {
			at := y / scale * letterWidth
			for _, cell := range shape[at:at+letterWidth] + " " {
				rows[y] += strings.Repeat(string(cell), scale)
			}
		}
	}
	return rows
}

// banner is the top of the first page, which is read from afar: the name of the node, and on a monitor of so many cells
// that usual letters are tiny, how it is, in letters that grow with it. It leaves the other lines their room.
func banner(name, word string, width, room int) []string {
	for scale := max(width/smallest, 1); scale > 0; scale-- {
		rows := large(name, width, scale)
		if rows != nil && scale > 1 {
			rows = append(append(rows, ""), large(word, width, scale)...)
		}
		if rows != nil && len(rows) <= room {
			return rows
		}
	}
	return nil
}
