package answers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"spore/agent/api"
	"spore/agent/node"
	"spore/agent/trail"
	"spore/agent/verbs"
	"spore/wire/nodeapi"
)

// pulse is how often a caller hears that the node is still there, and pause how much longer than its bound a verb is
// waited for.
const (
	pulse = 15 * time.Second
	pause = 30 * time.Second
)

// notTaken is what a caller is told whose call nobody took, or that ended in the middle: systemd closes a connection
// that is one too many.
const notTaken = `{"error":"it has ended without a word; see the journal of the node"}` + "\n"

// verbRows are the rows of the verbs: one for each, so that each has its own rights and bounds.
func verbRows(m *node.Machine, k *trail.Keeper) (out []api.Row) {
	for _, v := range nodeapi.Verbs() {
		bound, atOnce := v.Bound, v.AtOnce
		if bound == 0 {
			bound = time.Minute
		}
		if atOnce == 0 {
			atOnce = 8
		}
		if v.Kind == nodeapi.Acts {
			// Those that act are counted where they are carried out, which may be longer than a caller listens. Here there is
			// room for the next while the record of the last one is on its way to another node.
			atOnce += 8
		}
		out = append(out, api.Row{
			Method: http.MethodPost, Path: nodeapi.VerbsPath + v.Name, Who: v.Who, Body: nodeapi.MaxOrder,
			AtOnce: atOnce, Bound: bound + pause, Traced: true,
			Handle: func(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller) {
				hand(w, r, caller, m, k, v)
			},
		})
	}
	return out
}

// verbAnswer is the type of what a verb answers.
const verbAnswer = "application/x-ndjson"

// hand checks an order and hands it to the process of root; what that answers goes to the caller as it comes. The order
// of a verb that acts is a record, and so is what came of it, also when the caller has gone meanwhile.
func hand(
	w http.ResponseWriter, r *http.Request, caller nodeapi.Caller, m *node.Machine, k *trail.Keeper, v nodeapi.Verb,
) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the order was cut off or is too large", http.StatusBadRequest)
		return
	}
	order, err := nodeapi.ParseOrder(data)
	if err == nil {
		err = v.Check(order)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if v.Kind == nodeapi.Acts {
		record := recordOf(v.Name, r, caller)
		record.Arguments, record.DryRun = order.Arguments, order.DryRun
		record.Confirm, record.Force = order.Confirm, order.Force
		end := k.Begin(r.Context(), record)
		o := &outcome{ResponseWriter: w, status: http.StatusOK}
		defer func() { end(o.end()) }()
		w = o
	}
	carryOut(w, r, caller, m, v, order)
}

// carryOut hands an order over, and its answer back.
func carryOut(
	w http.ResponseWriter, r *http.Request, caller nodeapi.Caller, m *node.Machine, v nodeapi.Verb, order nodeapi.Order,
) {
	conn, err := new(net.Dialer).DialContext(r.Context(), "unix", m.Root.At(verbs.Socket(v.Kind)))
	if err != nil {
		m.Say(err.Error())
		http.Error(w, "what carries this out does not run; see the journal of spore-"+string(v.Kind)+".socket", http.StatusServiceUnavailable)
		return
	}
	defer conn.Close()
	call, err := json.Marshal(verbs.Call{Verb: v.Name, Order: order, Caller: caller.Name, Roles: caller.Roles, Nodes: caller.Nodes})
	if err == nil {
		_, err = conn.Write(append(call, '\n'))
	}
	if err != nil {
		m.Say(err.Error())
		http.Error(w, "what carries this out does not listen", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", verbAnswer)
	goesOn := v.Kind == nodeapi.Acts
	if !goesOn {
		stop := context.AfterFunc(r.Context(), func() { _ = conn.Close() })
		defer stop()
	}
	pass(m, http.NewResponseController(w), w, conn, goesOn)
}

// pass gives events to the caller until the last, and a pulse between them. With goesOn it reads on when the caller has
// gone: the unit of root bounds how long.
func pass(m *node.Machine, control *http.ResponseController, w io.Writer, from io.Reader, goesOn bool) {
	var mu sync.Mutex
	write := func(line []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if _, err := w.Write(line); err != nil {
			return err
		}
		return control.Flush()
	}
	// A first sign at once: what takes its time to say something was taken all the same.
	if write([]byte("\n")) != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() {
		beat := time.NewTicker(pulse)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
				if write([]byte("\n")) != nil {
					return
				}
			}
		}
	})
	defer beating.Wait()
	defer cancel()
	lines := bufio.NewReaderSize(from, nodeapi.MaxEvent)
	some := false
	for {
		line, err := lines.ReadSlice('\n')
		if err == nil {
			some = true
			if err = write(line); goesOn {
				err = nil
			}
		}
		switch {
		case errors.Is(err, io.EOF) && !some:
			_ = write([]byte(notTaken)) // Who has gone meanwhile does not read it.
			return
		case errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			m.Say(fmt.Sprintf("answer a verb: %v", err))
			return
		}
	}
}
