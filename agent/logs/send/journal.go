package send

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync"

	"spore/wire/journalexport"
)

// journalKey is the key of acknowledgements of the journal, of which the last one counts.
const journalKey = "journal"

// journal is the journal of the node as one store gets it. systemd-journal-upload posts entries until it has reached
// the end of the journal, waits for the answer, saves where it is, and posts what was written meanwhile. It is answered
// when the store has all of it; until then it reads no further. So nothing is kept here but what is on its way.
type journal struct {
	positions *Positions[marks]
	// turn is held by the upload that is taken. A second one comes where journal-upload was started anew.
	turn sync.Mutex
	mu   sync.Mutex
	// taken are the entries that are in the queue, or were. Who holds turn changes them.
	taken marks
}

func openJournal(dir string, o Options) *journal {
	p := OpenPositions[marks](filepath.Join(dir, "journal.json"), o.Now, o.Say)
	m, _ := p.Get(journalKey)
	if len(m) > maxMarks {
		m = m[:maxMarks]
	}
	return &journal{positions: p, taken: slices.Clone(m)}
}

func (j *journal) known() marks {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.taken
}

func (j *journal) took(m marks) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.taken = m
}

// take answers an upload.
func (s *store) take(w http.ResponseWriter, r *http.Request) {
	s.journal.turn.Lock()
	defer s.journal.turn.Unlock()
	ctx := r.Context()
	err := s.takeAll(ctx, r.Body)
	if err == nil {
		err = s.queue.settled(ctx)
	}
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, journalexport.ErrMalformed):
		s.counters.add("spore_logs_unreadable_total", s.label(), 1)
		s.tell("the upload of the journal: " + err.Error())
		http.Error(w, err.Error(), http.StatusBadRequest)
	default: // The connection was cut, or the program ends: what is in the queue comes again, or is left out then.
		panic(http.ErrAbortHandler)
	}
}

// takeAll puts the entries of an upload into the queue.
func (s *store) takeAll(ctx context.Context, body io.Reader) error {
	in := journalexport.NewReader(body)
	var data []byte
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read entries: %w", err)
		}
		if data, err = s.takeEntry(ctx, e, data[:0]); err != nil {
			return err
		}
	}
}

// takeEntry puts one entry into the queue; it uses the memory of data.
func (s *store) takeEntry(ctx context.Context, e journalexport.Entry, data []byte) ([]byte, error) {
	cursor, _ := e.Get(CursorField)
	at, known := placeOf(cursor)
	if known && s.journal.known().has(at) {
		s.counters.add("spore_logs_duplicates_total", s.label(), 1)
		return data, nil
	}
	it := item{source: Journal, at: writtenAt(e)}
	count, why := lost(e)
	fresh, gap := s.journal.known(), uint64(0)
	if known {
		fresh, gap = fresh.with(at), fresh.gap(at)
		it.key = journalKey
		it.acknowledged = func() {
			if err := s.journal.positions.Set(journalKey, fresh); err != nil {
				s.tell(err.Error())
			}
		}
	}
	data = s.encode(data, e, Journal)
	it.data = data
	if err := s.queue.add(ctx, it); err != nil {
		return data, err
	}
	s.journal.took(fresh)
	s.counters.add("spore_logs_sent_total", label("store", s.Name, "source", Journal), 1)
	s.countLost(count, why)
	s.countLost(gap, lostGap)
	return data, nil
}

func (s *store) countLost(count uint64, why string) {
	if count > 0 {
		s.counters.add("spore_logs_dropped_by_journal_total", label("store", s.Name, "why", why), float64(count))
	}
}

// encode appends an entry as it goes to the store.
func (s *store) encode(data []byte, e journalexport.Entry, source string) []byte {
	if _, cut := e.Get(journalexport.Cut); cut {
		s.counters.add("spore_logs_cut_total", label("store", s.Name, "source", source), 1)
	}
	return journalexport.Append(data, prepared(e, source))
}
