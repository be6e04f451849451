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

// large writes a name in large letters; there is nothing where it is too wide or a letter is missing.
func large(name string, width int) []string {
	name = strings.ToUpper(name)
	if name == "" || len(name)*(letterWidth+1) > width-2 {
		return nil
	}
	rows := make([]string, letterHeight)
	for _, c := range []byte(name) {
		shape, ok := letters[c]
		if !ok {
			return nil
		}
		for y := range rows {
			rows[y] += shape[y*letterWidth:(y+1)*letterWidth] + " "
		}
	}
	return rows
}
