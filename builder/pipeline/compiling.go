package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"spore/builder/payload"
	"spore/builder/progress"
)

// unpinnedSize stands for the size of a program that is pinned nowhere, which are ours, in bytes.
const unpinnedSize = 20 << 20

// compiling tells a person which program is made, how far it is, and what is left.
type compiling struct {
	step     *progress.Step
	terminal bool
	// plan says what there will be; it is asked when the first program is missing, since most builds miss none.
	plan func() (binaries, error)
	todo []making
}

// making is one program, one set of jars, or one archive, that the store did not have.
type making struct {
	name string
	// weight is its size: how long it will take is as good as proportional to it.
	weight float64
}

// report is a payload.Options.Report.
func (c *compiling) report(p payload.Progress) {
	if c.todo == nil {
		c.todo = []making{{p.Program, 1}}
		if planned, err := c.plan(); err == nil { // else the build itself is about to say why not
			c.todo = missing(planned)
		}
	}
	text, done := describeMaking(c.todo, p)
	if c.terminal {
		text = progress.Bar(done) + " " + text
	}
	c.step.Update("%s", text)
}

// missing lists what is to be made, in its order.
func missing(planned binaries) []making {
	var out []making
	for _, p := range append([]payload.Program{planned.agent, planned.stage1}, planned.payloads...) {
		m := making{p.Name, unpinnedSize}
		if p.Sum != nil {
			m.weight = float64(p.Sum.Size)
		}
		if p.Artifact != nil || p.Unpacked != "" {
			m.name = p.Payload
		}
		switch same := slices.IndexFunc(out, func(o making) bool { return o.name == m.name }); {
		case p.Cached:
		case same >= 0:
			out[same].weight += m.weight
		default:
			out = append(out, m)
		}
	}
	return out
}

// describeMaking says in one line how far all of it is; done is the part, from 0 to 1.
func describeMaking(todo []making, p payload.Progress) (text string, done float64) {
	i := slices.IndexFunc(todo, func(m making) bool { return m.name == p.Program })
	var all float64
	var left []string
	for n, m := range todo {
		all += m.weight
		switch {
		case n < i:
			done += m.weight
		case n == i && p.Total > 0:
			done += m.weight * float64(p.Done) / float64(p.Total)
		case n > i:
			left = append(left, m.name)
		}
	}
	text = fmt.Sprintf("%d of %d: %s", i+1, len(todo), p.Program)
	if p.Total > 0 {
		text += fmt.Sprintf(", %d of %d packages", p.Done, p.Total)
	}
	text += ", " + p.Now
	if len(left) > 0 {
		text += "; left: " + strings.Join(left, ", ")
	}
	return text, done / all
}
