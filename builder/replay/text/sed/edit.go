package sed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/regex"
	"spore/builder/replay/text/stream"
)

// maxSpace is the size of the pattern space and the hold space, in bytes.
const maxSpace = 16 << 20

// output is where lines go. A line that came without a newline gets one as soon as another follows.
type output struct {
	w       io.Writer
	limit   int // bytes, 0 is without
	n       int
	missing bool
}

func (o *output) write(b []byte) error {
	if o.n += len(b); o.limit > 0 && o.n > o.limit {
		return fmt.Errorf("over %d bytes of output: %w", o.limit, files.ErrBound)
	}
	_, err := o.w.Write(b)
	return err
}

func (o *output) line(b []byte, newline byte, whole bool) error {
	if err := o.complete(newline); err != nil {
		return err
	}
	if err := o.write(b); err != nil {
		return err
	}
	if o.missing = !whole; o.missing {
		return nil
	}
	return o.write([]byte{newline})
}

func (o *output) complete(newline byte) error {
	if !o.missing {
		return nil
	}
	o.missing = false
	return o.write([]byte{newline})
}

type inputLine struct {
	text  []byte
	whole bool // it ended with a newline
	file  string
}

// later is what a, r and R print at the end of the cycle.
type later struct {
	text  []byte
	line  bool // text is a line without its newline
	whole bool
}

// editor runs a script.
type editor struct {
	ctx     context.Context
	c       *command.Call
	s       *settings
	script  *script
	quiet   bool
	newline byte

	lines  []inputLine
	next   int // index of the next line
	number int
	now    inputLine // its text is the pattern space
	hold   []byte
	out    *output
	queue  []later
	last   *regex.Regex
	steps  int
	writes map[string]*output
	bodies map[string]*bytes.Buffer
	reads  map[string][]inputLine

	replaced bool // since the line was read or the last t
	quit     bool
	status   int
}

func (e *editor) split(in stream.Input) {
	data := in.Data
	for len(data) > 0 {
		i := bytes.IndexByte(data, e.newline)
		if i < 0 {
			e.lines = append(e.lines, inputLine{data, false, in.Name})
			return
		}
		e.lines = append(e.lines, inputLine{data[:i], true, in.Name})
		data = data[i+1:]
	}
}

// edit runs the script on the lines of some files as if they were one.
func (e *editor) edit(inputs []stream.Input) error {
	e.lines, e.next, e.number, e.hold, e.reads = nil, 0, 0, nil, map[string][]inputLine{}
	for _, in := range inputs {
		e.split(in)
	}
	for _, i := range e.script.commands {
		i.active = i.from != nil && i.from.kind == lineNumber && i.from.n == 0
	}
	again := false // D: the next cycle goes on with what is left of the pattern space
	for again || e.next < len(e.lines) {
		if !again {
			e.advance()
			e.replaced = false
		}
		what, err := e.cycle()
		if err != nil {
			return err
		}
		again = what == restart
		if (what == endCycle || what == quitPrint) && !e.quiet {
			if err := e.print(e.now.text); err != nil {
				return err
			}
		}
		if err := e.flush(); err != nil {
			return err
		}
		if what == quitPrint || what == quitNow {
			e.quit = true
			return nil
		}
	}
	return nil
}

// advance makes the next line the pattern space.
func (e *editor) advance() {
	e.now.text = nil
	e.extend()
}

// extend puts the next line behind the pattern space.
func (e *editor) extend() {
	l := e.lines[e.next]
	e.next++
	e.number++
	e.now = inputLine{append(e.now.text, l.text...), l.whole, l.file}
}

func (e *editor) print(b []byte) error { return e.out.line(b, e.newline, e.now.whole) }

// flush prints what a, r and R put off.
func (e *editor) flush() error {
	for _, l := range e.queue {
		if l.line {
			if err := e.out.line(l.text, e.newline, l.whole); err != nil {
				return err
			}
			continue
		}
		if err := e.out.complete(e.newline); err != nil {
			return err
		}
		if err := e.out.write(l.text); err != nil {
			return err
		}
	}
	e.queue = nil
	return nil
}

type outcome int

const (
	goOn      outcome = iota
	endCycle          // print and go on with the next line
	noPrint           // go on with the next line
	restart           // go on without a new line
	quitPrint         // print and end
	quitNow           // end
)

// cycle runs the script on the pattern space.
func (e *editor) cycle() (outcome, error) {
	for pc := 0; pc < len(e.script.commands); {
		if e.steps++; e.steps%256 == 0 && e.ctx.Err() != nil {
			return 0, e.ctx.Err()
		}
		if len(e.now.text) > maxSpace || len(e.hold) > maxSpace {
			return 0, fmt.Errorf("the pattern space or the hold space has over %d bytes: %w", maxSpace, files.ErrBound)
		}
		i := e.script.commands[pc]
		pc++
		ok, err := e.selects(i)
		if err != nil {
			return 0, err
		}
		if !ok {
			if i.name == '{' {
				pc = i.number
			}
			continue
		}
		switch i.name {
		case 'b':
			pc = i.number
		case 't', 'T':
			if e.replaced == (i.name == 't') {
				pc = i.number
			}
			e.replaced = false
		default:
			what, err := e.do(i)
			if err != nil || what != goOn {
				return what, err
			}
		}
	}
	return endCycle, nil
}

// do runs one command that does not jump.
func (e *editor) do(i *instruction) (outcome, error) {
	space := &e.now.text
	switch i.name {
	case 's':
		return goOn, e.substitute(i)
	case 'y':
		for k, c := range *space {
			(*space)[k] = i.table[c]
		}
	case 'p':
		return goOn, e.print(*space)
	case 'P':
		first, _, _ := bytes.Cut(*space, []byte{e.newline})
		return goOn, e.out.line(first, e.newline, true)
	case 'd':
		return noPrint, nil
	case 'D':
		_, rest, ok := bytes.Cut(*space, []byte{e.newline})
		if !ok {
			return noPrint, nil
		}
		*space = rest
		return restart, nil
	case 'n', 'N':
		return e.more(i.name)
	case 'g':
		*space = bytes.Clone(e.hold)
	case 'G':
		*space = append(append(*space, e.newline), e.hold...)
	case 'h':
		e.hold = bytes.Clone(*space)
	case 'H':
		e.hold = append(append(e.hold, e.newline), *space...)
	case 'x':
		*space, e.hold = e.hold, *space
	case 'z':
		*space = nil
	case 'a':
		e.queue = append(e.queue, later{text: []byte(i.text)})
	case 'i':
		return goOn, e.text(i.text)
	case 'c':
		if i.to == nil || !i.active || i.not {
			return noPrint, e.text(i.text)
		}
		return noPrint, nil
	case '=':
		return goOn, e.text(strconv.Itoa(e.number) + "\n")
	case 'F':
		return goOn, e.text(e.now.file + "\n")
	case 'l':
		return goOn, e.list(*space, i.number)
	case 'q', 'Q':
		e.status = max(i.number, 0)
		if i.name == 'Q' {
			return quitNow, nil
		}
		return quitPrint, nil
	case 'r', 'R':
		return goOn, e.readFile(i)
	case 'w':
		return goOn, e.writeFile(i.text, *space)
	case 'W':
		first, _, _ := bytes.Cut(*space, []byte{e.newline})
		return goOn, e.writeFile(i.text, first)
	}
	return goOn, nil
}

func (e *editor) text(s string) error {
	if err := e.out.complete(e.newline); err != nil {
		return err
	}
	return e.out.write([]byte(s))
}

// more reads the next line for n and N. Without one the script ends as GNU sed does it: the pattern space is printed.
func (e *editor) more(name byte) (outcome, error) {
	if e.next == len(e.lines) {
		return endCycle, nil
	}
	if name == 'n' {
		if !e.quiet {
			if err := e.print(e.now.text); err != nil {
				return 0, err
			}
		}
		if err := e.flush(); err != nil {
			return 0, err
		}
		e.advance()
		return goOn, nil
	}
	if err := e.flush(); err != nil {
		return 0, err
	}
	e.now.text = append(e.now.text, e.newline)
	e.extend()
	return goOn, nil
}

// selects tells whether a command is for the present line.
func (e *editor) selects(i *instruction) (bool, error) {
	if i.from == nil {
		return !i.not, nil
	}
	ok, err := e.inRange(i)
	return ok != i.not, err
}

func (e *editor) inRange(i *instruction) (bool, error) {
	if i.to == nil {
		return e.at(i.from)
	}
	if !i.active {
		if ok, err := e.at(i.from); !ok || err != nil {
			return false, err
		}
		switch i.to.kind {
		case lineNumber:
			i.end = i.to.n
		case plusLines:
			i.end = e.number + i.to.n
		case toMultiple:
			i.end = e.number
			if i.to.n > 0 {
				i.end = (e.number + i.to.n - 1) / i.to.n * i.to.n
			}
		default:
			i.active = true
			return true, nil
		}
		i.active = i.end > e.number
		return true, nil
	}
	switch i.to.kind {
	case expression, lastLine:
		ok, err := e.at(i.to)
		i.active = !ok
		return true, err
	}
	i.active = e.number < i.end
	return e.number <= i.end, nil
}

func (e *editor) at(a *address) (bool, error) {
	switch a.kind {
	case lineNumber:
		return e.number == a.n, nil
	case lastLine:
		return e.next == len(e.lines), nil
	case firstStep:
		if a.step == 0 {
			return e.number == a.n, nil
		}
		return e.number >= a.n && (e.number-a.n)%a.step == 0, nil
	}
	re, err := e.regex(a.re)
	if err != nil {
		return false, err
	}
	return re.Matches(e.now.text)
}

// regex keeps the expression for the next empty one.
func (e *editor) regex(re *regex.Regex) (*regex.Regex, error) {
	if re != nil {
		e.last = re
	}
	if e.last == nil {
		return nil, errors.New("no previous regular expression")
	}
	return e.last, nil
}

func (e *editor) substitute(i *instruction) error {
	re, err := e.regex(i.re)
	if err != nil {
		return err
	}
	text := e.now.text
	var out []byte
	done, count, before, copied := false, 0, -1, 0
	for at := 0; at <= len(text); {
		loc, err := re.Match(text, at)
		if err != nil {
			return err
		}
		if loc == nil {
			break
		}
		empty := loc[0] == loc[1]
		if !(empty && loc[0] == before) { // an empty match just behind another one is none
			if count++; count >= i.nth {
				out = append(out, text[copied:loc[0]]...)
				out = expand(out, i.replace, text, loc)
				copied, done = loc[1], true
				if len(out) > maxSpace {
					return fmt.Errorf("the pattern space has over %d bytes: %w", maxSpace, files.ErrBound)
				}
				if !i.global {
					break
				}
			}
		}
		before, at = loc[1], loc[1]
		if empty {
			at++
		}
	}
	if !done {
		return nil
	}
	e.now.text, e.replaced = append(out, text[copied:]...), true
	if i.print {
		if err := e.print(e.now.text); err != nil {
			return err
		}
	}
	if i.file != "" {
		return e.writeFile(i.file, e.now.text)
	}
	return nil
}

// expand appends a replacement with its groups and changes of case.
func expand(out []byte, replace []part, text []byte, loc []int) []byte {
	var all, one byte
	for _, p := range replace {
		switch p.kase {
		case 'L', 'U':
			all = p.kase
			continue
		case 'E':
			all = 0
			continue
		case 'l', 'u':
			one = p.kase
			continue
		}
		piece := []byte(p.text)
		if p.group >= 0 {
			if 2*p.group >= len(loc) || loc[2*p.group] < 0 {
				continue
			}
			piece = bytes.Clone(text[loc[2*p.group]:loc[2*p.group+1]])
		}
		if len(piece) == 0 {
			continue
		}
		change(piece, all)
		change(piece[:1], one)
		one = 0
		out = append(out, piece...)
	}
	return out
}

func change(b []byte, kase byte) {
	for k, c := range b {
		switch {
		case (kase == 'L' || kase == 'l') && c >= 'A' && c <= 'Z':
			b[k] = c + 32
		case (kase == 'U' || kase == 'u') && c >= 'a' && c <= 'z':
			b[k] = c - 32
		}
	}
}

// list prints the pattern space in the unambiguous form of l; width 1 and 0 do not wrap, -1 wraps at 70.
func (e *editor) list(b []byte, width int) error {
	if width < 0 {
		width = 70
	}
	var out []byte
	column := 0
	for _, c := range b {
		piece := fmt.Sprintf(`\%03o`, c)
		if k := bytes.IndexByte([]byte("\\\a\b\f\n\r\t\v"), c); k >= 0 {
			piece = `\` + `\abfnrtv`[k:k+1]
		} else if c >= ' ' && c <= '~' {
			piece = string(rune(c))
		}
		if width > 1 && column+len(piece) > width-1 {
			out, column = append(out, "\\\n"...), 0
		}
		out = append(out, piece...)
		column += len(piece)
	}
	return e.text(string(out) + "$\n")
}

func (e *editor) openWrites() error {
	e.writes, e.bodies = map[string]*output{}, map[string]*bytes.Buffer{}
	for _, name := range e.script.writes {
		if e.writes[name] != nil {
			continue
		}
		switch name {
		case "/dev/stdout":
			e.writes[name] = e.out
		case "/dev/stderr":
			e.writes[name] = &output{w: e.c.Stderr, limit: stream.MaxOutput}
		default:
			b := &bytes.Buffer{}
			e.writes[name], e.bodies[name] = &output{w: b, limit: stream.MaxOutput}, b
			if err := e.c.Files.WriteFile(e.c.Path(name), nil, 0o644); err != nil {
				return fmt.Errorf("%s: couldn't open file %s: %w", e.c.Name, name, err)
			}
		}
	}
	return nil
}

func (e *editor) writeFile(name string, b []byte) error {
	return e.writes[name].line(b, e.newline, e.now.whole)
}

// closeWrites writes the files of w, in the order in which the script names them.
func (e *editor) closeWrites() error {
	for _, name := range e.script.writes {
		b := e.bodies[name]
		if b == nil {
			continue
		}
		delete(e.bodies, name)
		if err := e.c.Files.WriteFile(e.c.Path(name), b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("%s: write %s: %w", e.c.Name, name, err)
		}
	}
	return nil
}

// readFile puts the data of a file, or its next line, off to the end of the cycle; a file that cannot be read is empty.
func (e *editor) readFile(i *instruction) error {
	if i.name == 'r' {
		data, err := stream.Read(e.c, i.text)
		if errors.Is(err, files.ErrBound) {
			return err
		}
		if len(data) > 0 {
			e.queue = append(e.queue, later{text: data})
		}
		return nil
	}
	lines, ok := e.reads[i.text]
	if !ok {
		data, err := stream.Read(e.c, i.text)
		if errors.Is(err, files.ErrBound) {
			return err
		}
		for _, l := range stream.Lines(data) {
			text := bytes.TrimSuffix(l, []byte("\n"))
			lines = append(lines, inputLine{text: text, whole: len(text) < len(l)})
		}
	}
	if len(lines) > 0 {
		e.queue = append(e.queue, later{text: lines[0].text, line: true, whole: lines[0].whole})
		lines = lines[1:]
	}
	e.reads[i.text] = lines
	return nil
}
