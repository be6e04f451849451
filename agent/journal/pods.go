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
	"sync"
	"time"

	"spore/wire/nodeapi"
)

// AnswerPod answers a question for the lines of a pod with the events of the verb nodeapi.PodLogs, which open begins:
// an entry in a line, as of the journal. What the verb says besides is an entry, too.
func (j *Reader) AnswerPod(
	w http.ResponseWriter, r *http.Request, q nodeapi.Logs, open func(context.Context) (io.ReadCloser, error),
) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events, err := open(ctx)
	if err != nil {
		j.Say(err.Error())
		http.Error(w, "this node cannot read the logs of its pods: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer events.Close()
	stop := context.AfterFunc(ctx, func() { _ = events.Close() })
	defer stop()

	to := &writer{w: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "application/x-ndjson")
	// The server takes a deadline that passes for a reader that went away.
	if err := to.control.SetReadDeadline(time.Time{}); err != nil {
		j.Say("read the logs of a pod: " + err.Error())
	}
	beat, still := context.WithCancel(ctx)
	defer still()
	var beating sync.WaitGroup
	beating.Go(func() { to.beat(beat, q.Follow, cancel) })
	if q.Priority != "" {
		err = to.write(saying("lines of pods have no priority; all are shown"), false)
	}
	if err == nil {
		err = relay(to, events)
	}
	still()
	beating.Wait()
	var refused toldError
	switch {
	case errors.As(err, &refused) && !to.wrote():
		http.Error(w, "this node cannot read the logs of its pods: "+err.Error(), http.StatusInternalServerError)
	case errors.As(err, &refused):
		_ = to.write(saying("the logs of the pod were not read to their end: "+err.Error()), true)
	case err != nil && !q.Follow:
		panic(http.ErrAbortHandler) // What the reader has would look whole.
	}
}

// toldError is what the verb says that went wrong.
type toldError string

func (e toldError) Error() string { return string(e) }

// relay writes what events have, until the last one.
func relay(to *writer, events io.Reader) error {
	in := bufio.NewReaderSize(events, nodeapi.MaxEvent)
	for {
		text, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read the logs of a pod: %w", err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var e nodeapi.Event
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("read the logs of a pod: %w", err)
		}
		switch {
		case e.Error != "":
			return toldError(e.Error)
		case e.Done != "":
			return to.flush()
		case e.Say != "":
			err = to.write(saying(e.Say), true)
		default:
			err = entries(to, e.Result)
		}
		if err != nil {
			return err
		}
	}
}

// entries writes a part of the result.
func entries(to *writer, result json.RawMessage) error {
	var list []json.RawMessage
	if err := json.Unmarshal(result, &list); err != nil {
		return fmt.Errorf("read the logs of a pod: %w", err)
	}
	for i, line := range list {
		if err := to.write(append(line, '\n'), i == len(list)-1); err != nil {
			return err
		}
	}
	return nil
}

// saying is an entry of the node's own.
func saying(text string) []byte {
	message, err := json.Marshal("(" + text + ")")
	if err != nil {
		return nil
	}
	const form = `{"__REALTIME_TIMESTAMP":"%d","PRIORITY":"5","MESSAGE":%s}` + "\n"
	return fmt.Appendf(nil, form, time.Now().UnixMicro(), message)
}
