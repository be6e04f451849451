// Package renewal renews the certificates of a node while it runs. A master makes its own; any other node asks a master, with
// requests for exactly its own rows of the table of package pki (Ask on the node, Signer on the master). Programs then take what
// is new in the way that the table Programs says, and those that have to be started again, and serve together, take turns.
//
// It makes no connections and starts nothing by itself: who asks whom, and how a unit is restarted, is handed in.
package renewal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"spore/pki"
)

// Asker asks for certificates.
type Asker struct {
	Cluster, Node string
	// Agent is the certificate of the node's agent, as it is now: it may have ended.
	Agent pki.Certificate
	// Masters are asked one after the other, until one answers.
	Masters []string
	// Post sends a request to a master and returns its answer.
	Post func(ctx context.Context, master string, data []byte) ([]byte, error)
	// Trusted holds the certificates of authorities by name (PEM).
	Trusted map[string]string
	Now     func() time.Time
	Random  io.Reader
}

// Ask asks for certificates with new keys. refused says, by the leaf's ID, why there is none of it. An error means that no master
// answered, and says of each why.
func (a Asker) Ask(ctx context.Context, leaves []pki.Leaf) (made map[string]pki.Certificate, refused map[string]error, err error) {
	keys, wanted := map[string]pki.Hidden{}, map[string]string{}
	for _, l := range leaves {
		if keys[l.Row.Name], wanted[l.Row.Name], err = pki.Request(l, a.Random); err != nil {
			return nil, nil, err
		}
	}
	data, err := Seal(Request{a.Cluster, a.Node, wanted}, a.Agent)
	if err != nil {
		return nil, nil, err
	}
	answer, err := a.first(ctx, data)
	if err != nil {
		return nil, nil, err
	}
	made, refused = map[string]pki.Certificate{}, map[string]error{}
	for _, l := range leaves {
		have := pki.Certificate{Certificate: answer.Made[l.Row.Name], Key: keys[l.Row.Name]}
		if why := answer.Refused[l.Row.Name]; why != "" || have.Certificate == "" {
			refused[l.ID] = fmt.Errorf("the master refuses: %.300s", why)
			continue
		}
		// Where the configurations differ, theirs has other names: better than one that has ended.
		if e := l.Examine(have, a.Trusted[l.Row.Authority], a.Now()); e.Worth == pki.Useless {
			refused[l.ID] = fmt.Errorf("what the master made is of no use: %s", e.Why)
			continue
		}
		made[l.ID] = have
	}
	return made, refused, nil
}

// first is the answer of the first master that gives one.
func (a Asker) first(ctx context.Context, data []byte) (Answer, error) {
	if len(a.Masters) == 0 {
		return Answer{}, errors.New("the cluster has no master that could sign")
	}
	var why []string
	for _, m := range a.Masters {
		text, err := a.Post(ctx, m, data)
		var answer Answer
		if err == nil {
			answer, err = ReadAnswer(text)
		}
		if err == nil {
			return answer, nil
		}
		why = append(why, fmt.Sprintf("%s (%v)", m, err))
	}
	return Answer{}, errors.New("no master has signed: " + strings.Join(why, ", "))
}
