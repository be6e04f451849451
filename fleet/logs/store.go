package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/fleet"
	"spore/services/logs"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

const (
	// behind is how old the newest line of a node is in a store of which a person is told.
	behind = 10 * time.Minute
	// maxBehind is how many such nodes are named.
	maxBehind = 20
	// maxApart bounds by how much a clock is said to differ, in seconds: ten years.
	maxApart = 10 * 365 * 24 * 3600
	// maxNames bounds the names of nodes in one question, in bytes: an argument of a verb has at most 4 KiB.
	maxNames = 4000
)

// Stores are the nodes whose store is to be asked, in the order in which they are.
func (o *Options) Stores(c *fleet.Cluster) []string {
	if !o.Several || o.Direct || o.Follow || logs.Of(c.Facts.Services) == nil {
		return nil
	}
	return c.Facts.Members[logs.Role]
}

// store prints what the first store that answers has of the nodes. Where none does, it is not answered, and nothing was
// printed.
func (s *session) store(ctx context.Context, stores, sources []string, byTime bool) (answered bool, err error) {
	questions := s.questions(sources)
	asks := make([]Ask, len(questions)) // Of no node.
	for i := range asks {
		asks[i].Lines = s.asks[0].Lines
	}
	var problems []error
	for _, node := range stores {
		kept, err := newSpool(asks, s.room(len(asks)))
		if err != nil {
			return true, err
		}
		defer kept.close()
		end, err := s.askStore(ctx, node, questions, kept)
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		if errors.Is(err, errSpool) {
			return true, err
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", node, err))
			continue
		}
		for _, p := range problems {
			s.say("%v; the store of %s is asked", p, node)
		}
		s.from = node
		return true, s.printStored(ctx, kept, end, byTime)
	}
	return false, fmt.Errorf("no store of logs answers: %w", errors.Join(problems...))
}

// questions are those to a store. Nodes of which the same units are asked for are in one, as far as their names have
// room in it.
func (s *session) questions(sources []string) (out []nodeapi.Order) {
	type group struct {
		units string
		nodes []string
		size  int
	}
	var groups []*group
	for _, a := range s.asks {
		units := strings.Join(a.Units(), ",")
		i := slices.IndexFunc(groups, func(g *group) bool { return g.units == units && g.size+len(a.node) < maxNames })
		if i < 0 {
			i, groups = len(groups), append(groups, &group{units: units})
		}
		groups[i].nodes, groups[i].size = append(groups[i].nodes, a.node), groups[i].size+len(a.node)+1
	}
	q := s.asks[0].Logs
	for _, g := range groups {
		arguments := map[string]string{
			"nodes": strings.Join(g.nodes, ","), "units": g.units, "sources": strings.Join(sources, ","), "pod": q.Pod,
			"priority": q.Priority, "grep": q.Grep, "boot": q.Boot, "lines": strconv.Itoa(q.Lines),
		}
		for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
			if !at.IsZero() {
				arguments[name] = at.UTC().Format(time.RFC3339Nano)
			}
		}
		maps.DeleteFunc(arguments, func(_, value string) bool { return value == "" })
		out = append(out, nodeapi.Order{Arguments: arguments})
	}
	return out
}

// askStore asks a store all questions, and keeps its lines.
func (s *session) askStore(ctx context.Context, node string, questions []nodeapi.Order, kept *spool) (all machine.LogsEnd, err error) {
	all.Newest, all.Clocks = map[string]time.Time{}, map[string]float64{}
	for i, order := range questions {
		body, err := json.Marshal(order)
		if err != nil {
			return all, fmt.Errorf("internal error: %w", err)
		}
		var end *machine.LogsEnd
		r := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + nodeapi.LogsQuery, Body: bytes.NewReader(body)}
		err = s.Stream(ctx, node, r, max(s.Timeout, silence), func(r io.Reader) error {
			_, err := nodeapi.ReadEvents(r, func(e nodeapi.Event) (err error) {
				switch {
				case e.Say != "":
					s.say("%s: %s", node, e.Say)
				case bytes.HasPrefix(e.Result, []byte("[")):
					err = kept.files[i].addList(e.Result)
				default:
					end = new(machine.LogsEnd)
					err = json.Unmarshal(e.Result, end)
				}
				return err
			})
			return err
		})
		if err == nil && end == nil {
			err = errors.New("its answer has no end")
		}
		if err != nil {
			return all, err
		}
		maps.Copy(all.Newest, end.Newest)
		maps.Copy(all.Clocks, end.Clocks)
		all.Cut = all.Cut || end.Cut
		if end.Why != "" {
			all.Why = end.Why
		}
	}
	return all, nil
}

// addList keeps a list of entries.
func (f *spoolFile) addList(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("its answer is malformed: %w", err)
	}
	for _, raw := range list {
		if len(raw) > nodeapi.MaxEntry {
			return fmt.Errorf("an entry has more than %d bytes", nodeapi.MaxEntry)
		}
		if _, err := nodeOf(raw); err != nil {
			return err
		}
		if err := f.add(line{raw: raw}); err != nil {
			return err
		}
	}
	return nil
}

// printStored prints what a store has answered, and says what is not in it.
func (s *session) printStored(ctx context.Context, kept *spool, end machine.LogsEnd, byTime bool) error {
	lines, most := 0, s.asks[0].Lines
	for _, f := range kept.files {
		lines += f.lines
	}
	skip := max(0, lines-most) // Each of several questions has as many.
	print := s.until(ctx)
	err := kept.merge(func(l line) error {
		if skip > 0 {
			skip--
			return nil
		}
		return print(l)
	})
	if err != nil {
		return err
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	switch {
	case end.Why != "":
		s.say("there may be older lines: %s", end.Why)
	case end.Cut && byTime:
		s.say("these are the last %d lines; choose a later --since or an earlier --until to see others", min(lines, most))
	case lines == 0 && most > 0:
		s.say("the store has no such line")
	}
	s.sayClocks(end.Clocks)
	s.sayBehind(end.Newest, time.Now())
	return nil
}

// sayClocks says whose clocks are not that of the store: their lines stand where their own clocks have them. An offset
// of more than ten years is said as that.
func (s *session) sayClocks(clocks map[string]float64) {
	n := 0
	for _, a := range s.asks {
		ahead, differs := clocks[a.node]
		if !differs {
			continue
		}
		by := time.Duration(min(math.Abs(ahead), maxApart)) * time.Second
		switch n++; {
		case n > maxBehind:
		case ahead > 0:
			s.say("%s: its clock is %s ahead of the store's", a.node, by)
		default:
			s.say("%s: its clock is %s behind the store's", a.node, by)
		}
	}
	if n > maxBehind {
		s.say("and the clocks of %d more nodes differ", n-maxBehind)
	}
}

// sayBehind says of which nodes the store has nothing new: that they are silent there does not say that they are.
func (s *session) sayBehind(newest map[string]time.Time, now time.Time) {
	if until := s.asks[0].Until; !until.IsZero() && until.Before(now) {
		now = until
	}
	n := 0
	for _, a := range s.asks {
		at, known := newest[a.node]
		if known && now.Sub(at) < behind {
			continue
		}
		switch n++; {
		case n > maxBehind:
		case known:
			s.say("%s: the store has its lines up to %s; see with --direct what it says since", a.node, at.UTC().Format(time.RFC3339))
		default:
			s.say("%s: the store has had no line of its journal for a day; see with --direct what it says", a.node)
		}
	}
	if n > maxBehind {
		s.say("and the same of %d more nodes", n-maxBehind)
	}
}
