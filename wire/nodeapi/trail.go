package nodeapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// TrailPath is where a node's records of what it was had to change are read: GET, answered with a TrailRecord a line,
// of calls not before the parameter TrailSince (RFC 3339). A POST, from a node, has another node keep records of it.
const (
	TrailPath  = "/v1/trail"
	TrailSince = "since"
)

// Bounds of records. MaxTrailRecord is of a line and MaxTrailPost of what is sent at once, in bytes; maxTrailText is
// what a record keeps of one text.
const (
	MaxTrailRecord = 32 << 10
	MaxTrailPost   = 256 << 10
	maxTrailText   = 512
	// maxTrailArguments is how many arguments a record keeps.
	maxTrailArguments = 16
)

// Stage says of what a record is.
type Stage string

// Stages. A call is two records of the same id; the second is missing when the node stopped meanwhile, as it does when
// it is restarted.
const (
	Begun Stage = "begun"
	Did   Stage = "done"
	Erred Stage = "failed"
)

// TrailRecord is a call that changes something, or what came of it.
type TrailRecord struct {
	// ID is the call's: 32 hexadecimal digits.
	ID    string    `json:"id"`
	Stage Stage     `json:"stage"`
	Time  time.Time `json:"time"`
	// Node is the one that was asked.
	Node string `json:"node"`
	// User, Serial and Role are what the caller's certificate says, and From is the address that he asked from.
	User   string `json:"user"`
	Serial string `json:"serial"`
	Role   Role   `json:"role"`
	From   string `json:"from"`
	// Call is the name of a verb, or update, back or bundle.
	Call string `json:"call"`
	// Arguments are those of the order, without anything's content; Confirm and Force are of the order, too.
	Arguments map[string]string `json:"arguments,omitempty"`
	DryRun    bool              `json:"dryRun,omitempty"`
	Confirm   string            `json:"confirm,omitempty"`
	Force     string            `json:"force,omitempty"`
	// Result says what was done, or why it failed.
	Result string `json:"result,omitempty"`
}

// Clipped is the record with what is too long of it cut off, so that it can be kept.
func (r TrailRecord) Clipped() TrailRecord {
	for _, text := range []*string{&r.User, &r.From, &r.Confirm, &r.Force, &r.Result} {
		*text = clip(*text)
	}
	kept := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Arguments)) {
		if len(kept) == maxTrailArguments {
			kept["…"] = fmt.Sprintf("and %d more", len(r.Arguments)-maxTrailArguments)
			break
		}
		kept[clip(name)] = clip(r.Arguments[name])
	}
	r.Arguments = kept
	if len(kept) == 0 {
		r.Arguments = nil
	}
	// In JSON, a character may take six times its room.
	if line, err := json.Marshal(r); err != nil || len(line) > MaxTrailRecord {
		r.Arguments = map[string]string{"…": "too long to be kept"}
	}
	return r
}

// clip keeps the beginning of a text that is valid UTF-8.
func clip(text string) string {
	if len(text) > maxTrailText {
		text = text[:maxTrailText] + "…"
	}
	return string(bytes.ToValidUTF8([]byte(text), []byte("?")))
}

// ParseTrailRecord reads one line.
func ParseTrailRecord(line []byte) (TrailRecord, error) {
	var r TrailRecord
	if len(line) > MaxTrailRecord {
		return r, fmt.Errorf("a record has more than %d bytes", MaxTrailRecord)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return TrailRecord{}, fmt.Errorf("the record is malformed: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return TrailRecord{}, errors.New("the record is malformed: something follows it")
	}
	if err := r.check(); err != nil {
		return TrailRecord{}, fmt.Errorf("the record is malformed: %w", err)
	}
	return r, nil
}

func (r TrailRecord) check() error {
	switch {
	case len(r.ID) != 32 || !isHex(r.ID):
		return errors.New("its id is not 32 hexadecimal digits")
	case r.Stage != Begun && r.Stage != Did && r.Stage != Erred:
		return fmt.Errorf("there is no stage %.32q", r.Stage)
	case r.Time.IsZero() || r.Time.Year() > 9999:
		return errors.New("it has no time")
	case !isLabel(r.Node):
		return fmt.Errorf("%.64q is not the name of a node", r.Node)
	case !isLabel(r.Call):
		return fmt.Errorf("%.64q is not the name of a call", r.Call)
	case r.Serial != "" && !IsSerial(r.Serial):
		return fmt.Errorf("%.64q is not a serial number", r.Serial)
	case len(r.Arguments) > maxTrailArguments+1:
		return errors.New("it has too many arguments")
	}
	texts := []string{r.User, string(r.Role), r.From, r.Confirm, r.Force, r.Result}
	for name, value := range r.Arguments {
		texts = append(texts, name, value)
	}
	for _, text := range texts {
		if len(text) > maxTrailText+len("…") || !utf8.ValidString(text) {
			return errors.New("a text in it is too long or is no UTF-8")
		}
	}
	return nil
}

func isHex(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

// ReadTrail reads records, one a line. A line that is none is counted and passed over: the power may have been cut in
// the middle of it.
func ReadTrail(r io.Reader, see func(TrailRecord) error) (malformed int, err error) {
	lines := bufio.NewReaderSize(r, MaxTrailRecord+2)
	for {
		line, err := lines.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // The rest of a line that is too long.
			line = nil
			_, err = lines.ReadSlice('\n')
			if err == nil {
				malformed++
			}
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			record, bad := ParseTrailRecord(line)
			if bad != nil {
				malformed++
			} else if err := see(record); err != nil {
				return malformed, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return malformed, nil
		case err != nil:
			return malformed, fmt.Errorf("read the trail: %w", err)
		}
	}
}
