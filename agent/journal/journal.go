// Package journal answers GET /v1/logs of the node's API: the journal of a unit, one JSON object for each entry, as
// journalctl(1) writes it. It runs journalctl, which reads with the rights of the group systemd-journal; reading the
// files by ourselves would take cgo, or their format (systemd's JOURNAL_FILE_FORMAT) a second time.
package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"spore/wire/nodeapi"
)

// Times and bounds.
const (
	// pulse is how often a reader who follows hears that the node is still there, and the node that the reader is.
	pulse = 15 * time.Second
	// patience is how long one write may take.
	patience = 30 * time.Second
	// maxStderr is in bytes.
	maxStderr = 1 << 10
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

// arguments are those of journalctl. The name of the unit was checked: it holds no pattern.
func arguments(q nodeapi.Logs) []string {
	out := []string{
		"--quiet", "--no-pager", "--all", "--output=json", "--output-fields=MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_PID,_SYSTEMD_UNIT",
		"--lines=" + strconv.Itoa(q.Lines),
	}
	for _, unit := range q.Units() {
		out = append(out, "--unit="+unit)
	}
	if q.Follow {
		out = append(out, "--follow")
	}
	return out
}

// ServeHTTP answers. A reader who follows is answered until it goes away, or its certificate ends.
func (j *Reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := nodeapi.ParseLogs(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, j.Program, arguments(q)...)
	cmd.WaitDelay = time.Second
	var said bounded
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		j.fail(w, "start journalctl: "+err.Error())
		return
	}
	to := &writer{w: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "application/x-ndjson")
	var beating sync.WaitGroup
	beat, still := context.WithCancel(ctx)
	defer still()
	if q.Follow {
		// The server takes a deadline that passes for a reader that went away.
		if err := to.control.SetReadDeadline(time.Time{}); err != nil {
			j.Say("follow the journal: " + err.Error())
		}
		beating.Go(func() { to.beat(beat, cancel) })
	}
	err = copyEntries(to, out)
	cancelled := ctx.Err() != nil
	still()
	beating.Wait()
	if err != nil {
		cancel() // Nobody reads the rest. One whose all was read ends by itself, a moment after it has closed its output.
	}
	if failed := cmd.Wait(); failed != nil && err == nil && !cancelled {
		text := strings.TrimSpace(said.String())
		if to.wrote() {
			j.Say(fmt.Sprintf("journalctl: %v: %s", failed, text))
			return
		}
		j.fail(w, fmt.Sprintf("journalctl: %v: %s", failed, text))
	}
}

func (j *Reader) fail(w http.ResponseWriter, text string) {
	j.Say(text)
	http.Error(w, "this node cannot read its journal: "+text, http.StatusInternalServerError)
}

// copyEntries writes line by line, so that nothing else comes between the parts of one, and leaves out what is too
// long.
func copyEntries(to *writer, from io.Reader) error {
	in := bufio.NewReaderSize(from, nodeapi.MaxEntry)
	skipping := false
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			skipping = true
			continue
		case err != nil: // What has no newline was cut off.
			if errors.Is(err, io.EOF) {
				return to.flush()
			}
			return fmt.Errorf("read journalctl: %w", err)
		case skipping:
			skipping, line = false, tooLong
		}
		if err := to.write(line, in.Buffered() == 0); err != nil {
			return err
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

// beat writes an empty line now and then, and ends everything when nobody takes it.
func (w *writer) beat(ctx context.Context, stop func()) {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		if err := w.write([]byte("\n"), true); err != nil {
			stop()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
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
