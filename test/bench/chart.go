package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// Measures of the pictures in pixels.
const (
	rowHeight  = 16
	labelWidth = 250
	plotWidth  = 640
	margin     = 28
)

// A picture has both colours of the page behind it, so its own are of a middle brightness.
const svgStyle = `<style>text{font:11px sans-serif;fill:#888}.t{font-size:13px}line{stroke:#888;stroke-opacity:.3}.k{fill:#c44e52}.s{fill:#dd8452}.d{fill:#8172b3}.u{fill:#4c72b0}.g{fill:#55a868}polyline{fill:none;stroke-width:2}</style>`

func escapeXML(s string) string {
	var b strings.Builder
	// A strings.Builder takes all that is written.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

func svgHead(b *strings.Builder, width, height int, title string) {
	fmt.Fprintf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n%s\n<text class=\"t\" x=\"8\" y=\"18\">%s</text>\n",
		width, height, width, height, svgStyle, escapeXML(title))
}

// bootChart draws the pieces of a boot below each other on one axis of time.
func bootChart(spans []Span, title string) string {
	end := 1.0
	for _, s := range spans {
		end = math.Max(end, s.End)
	}
	step := tick(end)
	x := func(t float64) float64 { return labelWidth + t/end*plotWidth }
	height := margin*2 + len(spans)*rowHeight
	var b strings.Builder
	svgHead(&b, labelWidth+plotWidth+70, height, title)
	for t := 0.0; t <= end; t += step {
		fmt.Fprintf(&b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text x=\"%.1f\" y=\"%d\">%g s</text>\n", x(t), margin, x(t), height-margin+4, x(t)+2, height-10, t)
	}
	for i, s := range spans {
		y := margin + i*rowHeight
		width := math.Max(x(s.End)-x(s.Begin), 1.5)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>",
			labelWidth-6, y+12, escapeXML(s.Name), spanClass(s.Name), x(s.Begin), y+2, width, rowHeight-4)
		if d := s.End - s.Begin; d >= 0.05 {
			fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\">%.1f</text>", x(s.End)+4, y+12, d)
		}
		b.WriteByte('\n')
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// tick is a round distance of marks that gives about eight.
func tick(end float64) float64 {
	for _, step := range []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50} {
		if end/step <= 10 {
			return step
		}
	}
	return 100
}

func spanClass(name string) string {
	switch {
	case name == "kernel":
		return "k"
	case name == "stage1":
		return "s"
	case name == "systemd":
		return "d"
	case strings.HasSuffix(name, ".target"):
		return "g"
	}
	return "u"
}

// Curve is a line of a picture with logarithmic axes.
type Curve struct {
	Name, Colour string
	Values       []float64 // seconds, one for each size
}

// scaleChart draws processor time over the number of nodes, both logarithmic.
func scaleChart(points []Scale) string {
	curves := []Curve{{Name: "validate", Colour: "#c44e52"}, {Name: "build", Colour: "#4c72b0"}, {Name: "explain", Colour: "#55a868"}, {Name: "detect on the node", Colour: "#8172b3"}}
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range points {
		for i, v := range []float64{p.Validate.CPU.Seconds(), p.Build.CPU.Seconds(), p.Explain.CPU.Seconds(), p.Detect.Seconds()} {
			curves[i].Values = append(curves[i].Values, v)
			if v > 0 {
				low, high = math.Min(low, math.Floor(math.Log10(v))), math.Max(high, math.Ceil(math.Log10(v)))
			}
		}
	}
	const left, height, width = 70, 300, 460
	x := func(i int) float64 { return left + float64(i)/math.Max(1, float64(len(points)-1))*width }
	y := func(v float64) float64 {
		return margin + height - (math.Log10(math.Max(v, math.Pow(10, low)))-low)/math.Max(1, high-low)*height
	}
	var b strings.Builder
	svgHead(&b, left+width+150, height+margin*2+10, "CPU seconds by the number of nodes")
	for e := low; e <= high; e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(&b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g s</text>\n", left, y(v), left+width, y(v), left-6, y(v)+4, v)
	}
	for i, p := range points {
		fmt.Fprintf(&b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x(i), margin, x(i), margin+height, x(i), margin+height+18, p.Nodes)
	}
	for _, c := range curves {
		var line []string
		for i, v := range c.Values {
			line = append(line, fmt.Sprintf("%.1f,%.1f", x(i), y(v)))
		}
		if len(line) == 0 {
			continue
		}
		last := c.Values[len(c.Values)-1]
		fmt.Fprintf(&b, "<polyline stroke=\"%s\" points=\"%s\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n", c.Colour, strings.Join(line, " "), x(len(c.Values)-1)+8, y(last)+4, escapeXML(c.Name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
