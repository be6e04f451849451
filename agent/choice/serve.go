package choice

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"spore/agent/choice/call"
	"spore/agent/node"
	"spore/agent/slot"
)

// grace is how long a person has to read what was done before the machine restarts.
const grace = 3 * time.Second

// bound is how long a call may take: somebody else may have the ESP for a while.
const bound = time.Minute

// Serve answers one call, and restarts the machine where a choice changed.
func Serve(ctx context.Context, m *node.Machine, in io.Reader, out io.Writer) error {
	m.ReadBoot()
	return Machine{Machine: m, OpenESP: func(ctx context.Context, path string) (Device, error) {
		return slot.OpenDevice(ctx, m.Root, path, false, m.Say)
	}}.serve(ctx, in, out, grace)
}

func (m Machine) serve(ctx context.Context, in io.Reader, out io.Writer, grace time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	c, err := parse(in)
	if err != nil {
		return reply(out, call.Answer{Error: err.Error()})
	}
	if c.Do != call.Look {
		end, err := m.alone()
		if err != nil {
			return reply(out, call.Answer{Error: err.Error()})
		}
		defer end()
	}
	a, restart := m.answer(bounded, c)
	err = reply(out, a)
	if !restart {
		return err
	}
	// A choice that is kept counts, whoever still listens.
	select {
	case <-time.After(grace):
	case <-ctx.Done():
	}
	return errors.Join(err, m.Restart(context.WithoutCancel(ctx)))
}

// parse reads the line of a call.
func parse(in io.Reader) (c call.Call, err error) {
	line, err := bufio.NewReaderSize(io.LimitReader(in, call.MaxCall), call.MaxCall).ReadBytes('\n')
	if err != nil {
		return c, errors.New("the call was cut off or is too large")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("the call is malformed: %w", err)
	}
	return c, nil
}

func reply(out io.Writer, a call.Answer) error {
	data, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	if len(data) >= call.MaxAnswer {
		data = []byte(`{"error":"the cluster has more nodes than can be listed: choose one with spore flash --node NAME"}`)
	}
	if _, err := out.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}
