// Package shell has the verbs that look after emergency shells (agent/shell): which sessions a node keeps, what was
// shown in one, as the journal has it, and that a person has seen it.
package shell

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"spore/agent/shell/kept"
	"spore/agent/verbs"
	"spore/wire/shell"
)

// Bounds of a replay, in bytes: of an entry as journalctl prints it, and of a part of the answer. Base64 of base64 is
// less than twice as long.
const (
	maxEntry = 64 << 10
	maxPart  = 128 << 10
	// maxNumber is beyond all numbers of records: each has a byte at least, and a session has a bound.
	maxNumber = 1 << 30
)

// Shell looks after sessions. Run runs programs.
type Shell struct{ Run verbs.Programs }

// List answers with all sessions that are kept, as a list of shell.Session in parts.
func (Shell) List(_ context.Context, r *verbs.Run) (string, error) {
	all, err := kept.In(r.Machine.Root).Sessions()
	if err != nil {
		return "", err
	}
	for part := all; len(part) > 0; {
		n := min(len(part), 100)
		if err := r.Result(part[:n]); err != nil {
			return "", err
		}
		part = part[n:]
	}
	return fmt.Sprintf("%d sessions", len(all)), nil
}

// Acknowledge keeps that the caller has seen that a shell was open.
func (Shell) Acknowledge(_ context.Context, r *verbs.Run) (string, error) {
	id := r.Argument("session", "")
	book := kept.In(r.Machine.Root)
	if r.Order.DryRun {
		all, err := book.Sessions()
		for _, s := range all {
			if s.ID == id {
				return "would acknowledge: " + s.Text(), nil
			}
		}
		return "", errors.Join(err, kept.ErrNone)
	}
	s, err := book.Acknowledge(id, r.Caller, r.Machine.Now())
	if err != nil {
		return "", err
	}
	s.AcknowledgedBy, s.Acknowledged = r.Caller, r.Machine.Now()
	return s.Text(), nil
}

// entry is what journalctl(1) prints of a record.
type entry struct {
	Number string `json:"SPORE_SHELL_NUMBER"`
	At     string `json:"SPORE_SHELL_AT"`
	Stream string `json:"SPORE_SHELL_STREAM"`
	Data   string `json:"SPORE_SHELL_DATA"`
}

// Replay answers with what was shown in a session, in lists of shell.Record, from the journal. Records that the journal
// has lost are told, and those that no session writes: root can write them, and they hide none of the others.
func (s Shell) Replay(ctx context.Context, r *verbs.Run) (string, error) {
	id := r.Argument("session", "")
	if err := kept.In(r.Machine.Root).Used(id); err == nil {
		return "", kept.ErrNone
	}
	// What others than root have written is not of the session.
	cmd := s.Run(ctx, "journalctl", "--quiet", "--no-pager", "--all", "--output=json",
		"--output-fields="+shell.NumberField+","+shell.AtField+","+shell.StreamField+","+shell.DataField,
		shell.SessionField+"="+id, "_UID=0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", fmt.Errorf("read the journal: %w", err)
	}
	p := replay{r: r}
	read := p.read(out)
	if read != nil { // It would wait for who reads on.
		_, _ = io.Copy(io.Discard, out)
	}
	if err := errors.Join(read, cmd.Wait()); err != nil {
		return "", fmt.Errorf("read the journal: %w", err)
	}
	return p.done(), nil
}

// replay takes records in the order of the journal.
type replay struct {
	r *verbs.Run
	// part are those that wait to be sent, and size is how much they have.
	part []shell.Record
	size int
	// next is the number that comes next, lost how many were not there, and records counts those with data.
	next, lost, records int64
	// strange counts those that are malformed, or whose number was there already.
	strange int64
	ended   bool
}

func (p *replay) read(from io.Reader) error {
	lines := bufio.NewReaderSize(from, maxEntry)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			p.strange++
			line = nil
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) > 0 {
			if err := p.take(line); err != nil {
				return err
			}
		}
		if err != nil {
			return p.flush()
		}
	}
}

func (p *replay) take(line []byte) error {
	var e entry
	err := json.Unmarshal(line, &e)
	if err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return fmt.Errorf("a record is malformed: %w", err)
	}
	number, no := strconv.ParseInt(e.Number, 10, 64)
	at, never := strconv.ParseInt(e.At, 10, 64)
	data, broken := base64.StdEncoding.DecodeString(e.Data)
	if errors.Join(err, no, never, broken) != nil || number < 0 || number > maxNumber {
		p.strange++
		return nil
	}
	if number < p.next {
		p.strange++
	} else {
		p.lost += number - p.next
		p.next = number + 1
	}
	switch e.Stream {
	case shell.StreamEnd:
		p.ended = true
		return nil
	case shell.StreamOutput, shell.StreamInput:
	default:
		return nil
	}
	p.records++
	p.part = append(p.part, shell.Record{At: at, Input: e.Stream == shell.StreamInput, Data: data})
	if p.size += len(data) + 64; p.size < maxPart {
		return nil
	}
	return p.flush()
}

func (p *replay) flush() error {
	if len(p.part) == 0 {
		return nil
	}
	err := p.r.Result(p.part)
	p.part, p.size = nil, 0
	return err
}

// done says what there was.
func (p *replay) done() string {
	text := fmt.Sprintf("%d records", p.records)
	if p.lost > 0 {
		text += fmt.Sprintf("; the journal does not have %d others", p.lost)
	}
	if p.strange > 0 {
		text += fmt.Sprintf("; %d records are out of place: somebody else may have written into it", p.strange)
	}
	if !p.ended {
		text += "; it does not have the end of the session"
	}
	return text
}
