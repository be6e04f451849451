// Package source asks several things of a node at once, each with bounds of its own, so that one that hangs costs its
// own rows and not the answer.
//
// An answer waits for its sources for a moment (Patience). What a slow source says later is kept, and is part of the
// answers of the next 90 seconds, so that a store sees it that asks once a minute: a machine under load, whose API
// server needs a second, then tells what was so one scrape ago, and says how old it is. Between scrapes nothing is
// asked.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/family"
)

// Bounds of a source. Patience is how long an answer waits; Bound is how long a source may take that is asked; kept is
// how long what it said is told; again is how long one that failed is left alone, of those that are not asked each
// time.
const (
	Patience = 120 * time.Millisecond
	Bound    = 5 * time.Second
	kept     = 90 * time.Second
	again    = time.Minute
)

// Source is one thing that is asked.
type Source struct {
	// Name is the value of the label source, and that of program of a service's rows.
	Name string
	// Every is how much time has to pass before it is asked again; 0 asks for each answer. What it said is told as long.
	// One that failed is asked again after a minute, if that is sooner.
	Every time.Duration
	// On tells whether the node has it; nil is always.
	On func(ask.Question) bool
	// Ask asks. The error beside families is of those that are missing.
	Ask func(context.Context, ask.Question) ([]*dto.MetricFamily, error)
}

// Families are what is told of the sources themselves.
func Families() []family.Family {
	label := []string{"source"}
	return []family.Family{
		{Name: "spore_source_up", Type: family.Gauge, Labels: label, From: "collector",
			Help: "1 where the source answered in time and in full when it was asked last."},
		{Name: "spore_source_answer_seconds", Type: family.Gauge, Labels: label, From: "collector",
			Help: "How long the last answer of the source took."},
		{Name: "spore_source_age_seconds", Type: family.Gauge, Labels: label, From: "collector",
			Help: "How old what the source said is; it is told for 90 seconds."},
	}
}

// Sources are asked together. Say is told when one stops to answer, and when it answers again.
type Sources struct {
	list     []*asked
	patience time.Duration
	bound    time.Duration
	now      func() time.Time
	say      func(string)
}

// asked is a source with what it said last.
type asked struct {
	Source
	mu       sync.Mutex
	running  chan struct{} // closed when the one that is running has ended; nil when none is
	begun    time.Time
	families []*dto.MetricFamily
	at       time.Time // when families were complete
	took     time.Duration
	err      error
	said     string
}

// New are sources with the usual bounds.
func New(list []Source, now func() time.Time, say func(string)) *Sources {
	s := &Sources{patience: Patience, bound: Bound, now: now, say: say}
	for _, one := range list {
		s.list = append(s.list, &asked{Source: one})
	}
	return s
}

// Gather asks all that the node has, and returns what they said, family by family, sorted.
func (s *Sources) Gather(ctx context.Context, q ask.Question) ([]*dto.MetricFamily, error) {
	var on []*asked
	var wait []chan struct{}
	for _, a := range s.list {
		if a.On != nil && !a.On(q) {
			continue
		}
		on = append(on, a)
		if running := s.begin(a, q); running != nil {
			wait = append(wait, running)
		}
	}
	s.await(ctx, wait)
	about := family.NewSink(Families())
	sets := make([][]*dto.MetricFamily, 0, len(on)+1)
	for _, a := range on {
		sets = append(sets, s.tell(a, about))
	}
	own, errs := about.Families()
	return merge(append(sets, own)), errors.Join(errs...)
}

// begin asks a source, unless it is being asked or was a moment ago; what it returns is closed when that has ended.
func (s *Sources) begin(a *asked, q ask.Question) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running != nil {
		return a.running
	}
	now, pause := s.now(), a.Every
	if a.err != nil {
		pause = min(pause, again)
	}
	if !a.begun.IsZero() && now.Sub(a.begun) < pause {
		return nil
	}
	done := make(chan struct{})
	a.running, a.begun = done, now
	go func() {
		defer close(done)
		// The source goes on when who asked has gone: its answer is for the next.
		ctx, cancel := context.WithTimeout(context.Background(), s.bound)
		defer cancel()
		families, err := a.Ask(ctx, q)
		s.end(a, families, err)
	}()
	return done
}

// end keeps what a source said, which may be nothing, as of a machine whose disks say nothing of their wear. Where it
// failed without any families, those from before stay until they are too old.
func (s *Sources) end(a *asked, families []*dto.MetricFamily, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := s.now()
	a.running, a.took, a.err = nil, now.Sub(a.begun), err
	if families != nil || err == nil {
		a.families, a.at = families, now
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && a.said == "" {
		s.say(fmt.Sprintf("metrics of %s: %.1000s", a.Name, text))
	}
	if text == "" && a.said != "" {
		s.say("metrics of " + a.Name + ": all of them again")
	}
	a.said = text
}

// await waits until all have ended, at most as long as an answer waits.
func (s *Sources) await(ctx context.Context, all []chan struct{}) {
	enough := time.NewTimer(s.patience)
	defer enough.Stop()
	for _, done := range all {
		select {
		case <-done:
		case <-enough.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// tell returns what a source said, and adds how it is.
func (s *Sources) tell(a *asked, about *family.Sink) []*dto.MetricFamily {
	a.mu.Lock()
	defer a.mu.Unlock()
	age := s.now().Sub(a.at)
	fresh := !a.at.IsZero() && age < max(kept, 2*a.Every)
	about.Flag("spore_source_up", fresh && a.err == nil, a.Name)
	if !fresh {
		a.families = nil
		return nil
	}
	about.Add("spore_source_answer_seconds", a.took.Seconds(), a.Name)
	about.Add("spore_source_age_seconds", max(0, age.Seconds()), a.Name)
	return a.families
}

// merge puts the series of families of one name together. A source whose family has another type is left out of it.
func merge(sets [][]*dto.MetricFamily) []*dto.MetricFamily {
	all := map[string]*dto.MetricFamily{}
	for _, set := range sets {
		for _, f := range set {
			have := all[f.GetName()]
			if have == nil {
				have = &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: f.Type}
				all[f.GetName()] = have
			}
			if have.GetType() == f.GetType() {
				have.Metric = append(have.Metric, f.Metric...)
			}
		}
	}
	out := make([]*dto.MetricFamily, 0, len(all))
	for _, f := range all {
		family.SortSeries(f)
		f.Metric = slices.CompactFunc(f.Metric, func(a, b *dto.Metric) bool { return family.Key(a) == family.Key(b) })
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// Of marks the series of families as those of a program.
func Of(program string, families []*dto.MetricFamily) []*dto.MetricFamily {
	for _, f := range families {
		for _, m := range f.Metric {
			m.Label = append(m.Label, &dto.LabelPair{Name: proto.String("program"), Value: proto.String(program)})
			family.SortLabels(m)
		}
	}
	return families
}
