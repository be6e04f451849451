// Package treemap draws sizes as rectangles whose areas are in proportion to them, as SVG 1.1: squarified treemaps (Bruls,
// Huizing, van Wijk, 2000). The same input gives the same text.
package treemap

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
)

// Box is one rectangle.
type Box struct {
	Name string
	// Size decides the area; boxes without one are not drawn.
	Size int64
	// Note is written below the name where there is room.
	Note string
	// Group numbers the colour of the box and its place in Options.Groups.
	Group int
}

// Options describe the picture.
type Options struct {
	Width, Height int // in pixels
	Title         string
	// Groups are the names of the colours, for the legend; there are at most as many as colours.
	Groups []string
}

// colours are light enough for black text.
var colours = [...]string{"#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6", "#e3e3e3"}

const (
	header   = 52 // pixels for title and legend
	fontSize = 12
	letter   = 7 // pixels that a letter takes at most, on average
	line     = 15
)

type rect struct{ x, y, w, h float64 }

// Write draws the boxes.
func Write(w io.Writer, boxes []Box, o Options) error {
	if len(o.Groups) > len(colours) {
		return fmt.Errorf("draw a treemap: %d groups, and there are %d colours", len(o.Groups), len(colours))
	}
	drawn := slices.DeleteFunc(slices.Clone(boxes), func(b Box) bool { return b.Size <= 0 })
	slices.SortStableFunc(drawn, func(a, b Box) int { return cmp.Compare(b.Size, a.Size) })
	var out bytes.Buffer
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"%d\">\n", o.Width, o.Height, o.Width, o.Height, fontSize)
	fmt.Fprintf(&out, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", o.Width, o.Height)
	fmt.Fprintf(&out, "<text x=\"4\" y=\"18\" font-size=\"16\">%s</text>\n", escape(o.Title))
	x := 4
	for i, name := range o.Groups {
		fmt.Fprintf(&out, "<rect x=\"%d\" y=\"30\" width=\"12\" height=\"12\" fill=\"%s\" stroke=\"#666666\"/>\n<text x=\"%d\" y=\"41\">%s</text>\n", x, colours[i], x+18, escape(name))
		x += 34 + letter*len(name)
	}
	for i, r := range squarify(drawn, rect{0, header, float64(o.Width), float64(o.Height - header)}) {
		if err := draw(&out, drawn[i], r, len(o.Groups)); err != nil {
			return err
		}
	}
	out.WriteString("</svg>\n")
	_, err := w.Write(out.Bytes())
	return err
}

func draw(out *bytes.Buffer, b Box, r rect, groups int) error {
	if b.Group < 0 || b.Group >= groups {
		return fmt.Errorf("draw a treemap: %s has the group %d, and there are %d", b.Name, b.Group, groups)
	}
	fmt.Fprintf(out, "<g><title>%s: %s</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" stroke=\"#ffffff\"/>", escape(b.Name), escape(b.Note), r.x, r.y, r.w, r.h, colours[b.Group])
	for i, text := range []string{b.Name, b.Note} {
		if float64(letter*len(text)+6) <= r.w && float64((i+1)*line+4) <= r.h {
			fmt.Fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", r.x+4, r.y+float64((i+1)*line), escape(text))
		} else if i == 0 {
			break
		}
	}
	out.WriteString("</g>\n")
	return nil
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

// squarify fills an area with boxes, the largest first, in rows along its shorter side.
func squarify(boxes []Box, area rect) []rect {
	var total float64
	for _, b := range boxes {
		total += float64(b.Size)
	}
	out := make([]rect, 0, len(boxes))
	for len(boxes) > 0 {
		scale := area.w * area.h / total
		side := min(area.w, area.h)
		n, sum := 1, float64(boxes[0].Size)
		for n < len(boxes) {
			next := sum + float64(boxes[n].Size)
			if worst(boxes[:n+1], next*scale, side, scale) > worst(boxes[:n], sum*scale, side, scale) {
				break
			}
			n, sum = n+1, next
		}
		thick := sum * scale / side
		at := 0.0
		for _, b := range boxes[:n] {
			long := float64(b.Size) * scale / thick
			if area.w >= area.h {
				out = append(out, rect{area.x, area.y + at, thick, long})
			} else {
				out = append(out, rect{area.x + at, area.y, long, thick})
			}
			at += long
		}
		if area.w >= area.h {
			area.x, area.w = area.x+thick, area.w-thick
		} else {
			area.y, area.h = area.y+thick, area.h-thick
		}
		total -= sum
		boxes = boxes[n:]
	}
	return out
}

// worst is the ratio of the longest to the shortest side of the least square box of a row.
func worst(row []Box, area, side, scale float64) float64 {
	large, small := float64(row[0].Size)*scale, float64(row[len(row)-1].Size)*scale
	return max(side*side*large/(area*area), area*area/(side*side*small))
}
