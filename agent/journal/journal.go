// Package journal answers GET /v1/logs of the node's API: the journal, one JSON object for each entry, as
// journalctl(1) writes it. It runs journalctl, which reads with the rights of the group systemd-journal; reading the
// files by ourselves would take cgo, or their format (systemd's JOURNAL_FILE_FORMAT) a second time.
package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/wire/nodeapi"
)

// Times and bounds.
const (
	// pulse is how often a reader hears that the node is still there, and the node that the reader is: who looks for
	// something rare, or follows, hears nothing else for long.
	pulse = 15 * time.Second
	// firstPulse is when for the first time, unless somebody follows. Readers wait 10 seconds for an answer to begin, and
	// a journal that cannot be read is better told before it has.
	firstPulse = 5 * time.Second
	// anew is how often it is looked for instances of a template.
	anew = 5 * time.Second
	// patience is how long one write may take.
	patience = 30 * time.Second
	// maxStderr is in bytes.
	maxStderr = 1 << 10
	// maxFound bounds what is kept of the entries that match an expression, in bytes: the newest come first, and are
	// given on when all are there.
	maxFound = 4 << 20
)

// tooLong stands for an entry that no reader would take.
var tooLong = fmt.Appendf(nil, `{"MESSAGE":"(an entry of more than %d bytes was left out)"}`+"\n", nodeapi.MaxEntry)

// Reader answers with what a program prints; it is journalctl but in tests.
type Reader struct {
	// Program is the path of journalctl.
	Program string
	// Say is told what goes wrong.
	Say func(string)
}

// transports are all ways into the journal but the kernel's audit records (systemd.journal-fields(7), _TRANSPORT).
var transports = []string{"driver", "journal", "kernel", "stdout", "syslog"}

// arguments are those of journalctl. The names of units were checked: they hold no pattern. Where an expression is
// looked for, the newest entry comes first, and the reader ends journalctl when it has enough.
func arguments(q nodeapi.Logs, audit bool) []string {
	out := []string{
		"--quiet", "--no-pager", "--all", "--output=json",
		"--output-fields=MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_PID,_SYSTEMD_UNIT,_TRANSPORT",
	}
	if backwards(q) {
		out = append(out, "--reverse")
	} else {
		out = append(out, "--lines="+strconv.Itoa(q.Lines))
	}
	for _, unit := range q.Units() {
		out = append(out, "--unit="+strings.Replace(unit, "@.", "@*.", 1)) // A template stands for all its instances.
	}
	if !q.Since.IsZero() {
		out = append(out, "--since="+at(q.Since))
	}
	if !q.Until.IsZero() {
		out = append(out, "--until="+at(q.Until))
	}
	if q.Priority != "" {
		out = append(out, "--priority="+q.Priority)
	}
	if q.Boot != "" {
		out = append(out, "--boot="+q.Boot)
	}
	if q.Follow {
		out = append(out, "--follow")
	}
	if !audit {
		for _, t := range transports {
			out = append(out, "_TRANSPORT="+t)
		}
	}
	return out
}

// noInstance is how journalctl ends what it says when no unit of a pattern has an entry (ENODATA).
const noInstance = "No data available"

func hasTemplate(q nodeapi.Logs) bool {
	return slices.ContainsFunc(q.Units(), func(unit string) bool { return strings.Contains(unit, "@.") })
}

// backwards tells whether entries are read from the newest on.
func backwards(q nodeapi.Logs) bool { return q.Grep != "" && !q.Follow }

// at is a time as systemd reads it (systemd.time(7), seconds since 1970).
func at(t time.Time) string { return fmt.Sprintf("@%d.%06d", t.Unix(), t.Nanosecond()/1000) }

// Answer answers a question. A reader who follows is answered until it goes away, or its certificate ends. With audit,
// the audit records of the kernel are among the entries.
func (j *Reader) Answer(w http.ResponseWriter, r *http.Request, audit bool) {
	q, err := nodeapi.ParseLogs(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var match *regexp.Regexp
	if q.Grep != "" {
		if match, err = nodeapi.ParseGrep(q.Grep); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	to := &writer{w: w, control: http.NewResponseController(w)}
	var beating sync.WaitGroup
	beat, still := context.WithCancel(ctx)
	defer still()
	begin := sync.OnceFunc(func() {
		w.Header().Set("Content-Type", "application/x-ndjson")
		// The server takes a deadline that passes for a reader that went away.
		if err := to.control.SetReadDeadline(time.Time{}); err != nil {
			j.Say("read the journal: " + err.Error())
		}
		beating.Go(func() { to.beat(beat, q.Follow, cancel) })
	})
	end := j.run(ctx, q, audit, match, to, begin)
	for end.none && q.Follow && pause(ctx) { // An instance may start meanwhile.
		end = j.run(ctx, q, audit, match, to, begin)
	}
	still()
	beating.Wait()
	switch {
	case end.cut && !q.Follow:
		panic(http.ErrAbortHandler) // What the reader has would look whole.
	case end.cut || end.none || end.failed == nil:
	case to.wrote():
		j.Say(end.failed.Error())
		_ = to.write(unread(end.failed), true)
	default:
		j.fail(w, end.failed.Error())
	}
}

// outcome is how journalctl ended.
type outcome struct {
	// failed is why there is not all that was asked for; nil where there is.
	failed error
	// none says that a template has no instance that has written anything.
	none bool
	// cut says that the answer ended before journalctl did: its reader went away, or may not read any more.
	cut bool
}

// run runs journalctl, and calls begin when it has started.
func (j *Reader) run(ctx context.Context, q nodeapi.Logs, audit bool, match *regexp.Regexp, to *writer, begin func()) outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.Program, arguments(q, audit)...)
	cmd.WaitDelay = time.Second
	var said bounded
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return outcome{failed: fmt.Errorf("start journalctl: %w", err)}
	}
	begin()
	enough := false
	if backwards(q) {
		enough, err = copyNewest(to, out, match, q.Lines)
	} else {
		err = copyEntries(to, out, match)
	}
	cut := (err != nil || ctx.Err() != nil) && !enough
	if cut || enough {
		cancel() // Nobody reads the rest. One whose all was read ends by itself, a moment after it has closed its output.
	}
	failed := cmd.Wait()
	if failed == nil || cut || enough {
		return outcome{cut: cut}
	}
	text := strings.TrimSpace(said.String())
	if hasTemplate(q) && strings.HasSuffix(text, noInstance) {
		return outcome{none: true}
	}
	return outcome{failed: fmt.Errorf("journalctl: %w: %s", failed, text)}
}

// pause waits for a moment, and tells whether there is still a reader.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(anew):
		return true
	}
}

// unread is an entry that says that there would be more.
func unread(failed error) []byte {
	message, err := json.Marshal(fmt.Sprintf("(the journal was not read to its end: %v)", failed))
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, `{"__REALTIME_TIMESTAMP":"%d","PRIORITY":"3","MESSAGE":%s}`+"\n", time.Now().UnixMicro(), message)
}

func (j *Reader) fail(w http.ResponseWriter, text string) {
	j.Say(text)
	http.Error(w, "this node cannot read its journal: "+text, http.StatusInternalServerError)
}

// copyEntries writes line by line, so that nothing else comes between the parts of one, and leaves out what is too
// long and what does not match; nil matches all.
func copyEntries(to *writer, from io.Reader, match *regexp.Regexp) error {
	in := lines{in: bufio.NewReaderSize(from, nodeapi.MaxEntry)}
	for {
		line, err := in.next()
		if errors.Is(err, io.EOF) {
			return to.flush()
		}
		if err != nil {
			return err
		}
		if !matches(match, line) {
			continue
		}
		if err := to.write(line, in.in.Buffered() == 0); err != nil {
			return err
		}
	}
}

// copyNewest writes the last count entries that match, in the order of time, of a journal that comes from its end. enough
// tells that the rest was not read.
func copyNewest(to *writer, from io.Reader, match *regexp.Regexp, count int) (enough bool, err error) {
	in := lines{in: bufio.NewReaderSize(from, nodeapi.MaxEntry)}
	var found [][]byte
	size := 0
	for !enough {
		line, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, err
		}
		switch {
		case len(found) == count:
			enough = true
		case !matches(match, line):
		case size+len(line) > maxFound:
			found, enough = append(found, leftOut(line)), true
		default:
			found, size = append(found, bytes.Clone(line)), size+len(line)
		}
	}
	for i, line := range slices.Backward(found) {
		if err := to.write(line, i == 0); err != nil {
			return enough, err
		}
	}
	return enough, to.flush()
}

// leftOut stands for the entries that had no room: the newest of them, and those before it.
func leftOut(newest []byte) []byte {
	e, err := nodeapi.ParseEntry(newest)
	if err != nil || e.Time.IsZero() {
		return fmt.Appendf(nil, `{"MESSAGE":"(older entries were left out: these have %d MiB)"}`+"\n", maxFound>>20)
	}
	return fmt.Appendf(nil, `{"__REALTIME_TIMESTAMP":"%d","MESSAGE":"(this entry and older ones were left out: the newer ones have %d MiB)"}`+"\n",
		e.Time.UnixMicro(), maxFound>>20)
}

// matches tells whether the message of an entry matches; what is no entry does, so that somebody sees it.
func matches(match *regexp.Regexp, line []byte) bool {
	if match == nil || bytes.Equal(line, tooLong) {
		return true
	}
	e, err := nodeapi.ParseEntry(line)
	return err != nil || match.MatchString(e.Message)
}

// lines are those that journalctl prints.
type lines struct{ in *bufio.Reader }

// next is the next line with its newline, until the next call; what is longer than a reader takes is tooLong. What has no
// newline was cut off.
func (l lines) next() ([]byte, error) {
	for skipping := false; ; {
		line, err := l.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			skipping = true
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, fmt.Errorf("read journalctl: %w", err)
		case skipping:
			return tooLong, nil
		default:
			return line, nil
		}
	}
}

// writer is the answer, to which the entries and the pulse are written.
type writer struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	some    bool
}

// write writes a line; the reader gets it at once where last is true.
func (w *writer) write(line []byte, last bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	w.some = true
	if _, err := w.w.Write(line); err != nil {
		return err
	}
	if last {
		return w.control.Flush()
	}
	return nil
}

func (w *writer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.some {
		return nil
	}
	return w.control.Flush()
}

func (w *writer) wrote() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.some
}

// beat writes an empty line now and then, the first one at once where now is true, and ends everything when nobody takes
// it.
func (w *writer) beat(ctx context.Context, now bool, stop func()) {
	wait := firstPulse
	if now {
		wait = 0
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			wait = pulse
		}
		if err := w.write([]byte("\n"), true); err != nil {
			stop()
			return
		}
	}
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxStderr - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
