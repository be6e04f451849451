package formation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Bounds of an answer.
const (
	maxAnswer  = 256 << 10 // bytes
	maxMembers = 1000
	maxName    = 253 // RFC 1035, section 2.3.4, as text
)

// Answer is what a member answers, as JSON: GET /v1/formation/SERVICE. All but who answers is missing while Known is false.
type Answer struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Service string `json:"service"`
	// Known is true when the member has looked at its data since it was given its disk.
	Known bool `json:"known"`
	// The others are as in State.
	Nonce   string   `json:"nonce,omitempty"`
	Initial []string `json:"initial,omitempty"`
	Follows string   `json:"follows,omitempty"`
	Record  *Record  `json:"record,omitempty"`
	Made    bool     `json:"made,omitempty"`
	Formed  bool     `json:"formed,omitempty"`
}

// answer is what a member says of itself; file is nil when it has none.
func answer(cluster, node, service string, file *State) Answer {
	a := Answer{Cluster: cluster, Node: node, Service: service}
	if file == nil || file.Cluster != cluster || file.Node != node {
		return a
	}
	a.Known, a.Nonce, a.Initial, a.Follows, a.Record, a.Made, a.Formed = true, file.Nonce, file.Initial, file.Follows, file.Record, file.Made, file.Formed
	return a
}

// readAnswer reads what a member answers about a service. Whatever is not as it must be is an error.
func readAnswer(r io.Reader, cluster, node, service string) (Answer, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err != nil {
		return Answer{}, fmt.Errorf("read its answer: %w", err)
	}
	if len(data) > maxAnswer {
		return Answer{}, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	}
	a, err := parseAnswer(data)
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("malformed answer: %w", err)
	case a.Cluster != cluster:
		return Answer{}, fmt.Errorf("it belongs to cluster %.64q", a.Cluster)
	case a.Node != node || a.Service != service:
		return Answer{}, fmt.Errorf("it answers for %.64q of %.64q", a.Service, a.Node)
	}
	return a, nil
}

func parseAnswer(data []byte) (Answer, error) {
	var a Answer
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&a); err != nil {
		return Answer{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Answer{}, errors.New("something follows the answer")
	}
	if !a.Known {
		return Answer{Cluster: a.Cluster, Node: a.Node, Service: a.Service}, nil
	}
	if !validNonce(a.Nonce) || a.Follows != "" && !validNonce(a.Follows) {
		return Answer{}, errors.New("a nonce has not the form of one")
	}
	if err := checkNames(a.Initial); err != nil {
		return Answer{}, fmt.Errorf("initial members: %w", err)
	}
	if a.Made && !a.Formed {
		return Answer{}, errors.New("it contradicts itself")
	}
	if a.Record != nil {
		if err := a.Record.check(a.Node, a.Nonce); err != nil {
			return Answer{}, fmt.Errorf("record: %w", err)
		}
	}
	return a, nil
}

// check refuses a record that its holder cannot form by.
func (r *Record) check(holder, nonce string) error {
	names := Plan{Members: r.Members}.Names()
	if err := checkNames(names); err != nil {
		return err
	}
	for _, name := range names {
		if !validNonce(r.Members[name]) {
			return errors.New("a nonce has not the form of one")
		}
	}
	if r.Members[holder] != nonce {
		return errors.New("its holder's nonce is not in it")
	}
	if r.Members[r.Writer] == "" {
		return errors.New("its writer is not in it")
	}
	return nil
}

// checkNames wants a sorted list of names, each once.
func checkNames(names []string) error {
	if len(names) == 0 || len(names) > maxMembers {
		return fmt.Errorf("there are %d, and there must be 1 to %d", len(names), maxMembers)
	}
	for i, name := range names {
		if name == "" || len(name) > maxName {
			return errors.New("a name is empty or too long")
		}
		if i > 0 && names[i-1] >= name {
			return errors.New("the names are not sorted")
		}
	}
	return nil
}

// clone keeps a list from being changed by its caller.
func clone(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}

func encodeAnswer(a Answer) []byte {
	data, _ := json.Marshal(a) // strings, lists and maps of strings cannot fail
	return append(data, '\n')
}
