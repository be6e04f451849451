package shell

import (
	"fmt"
	"time"
)

// Session is what a node keeps of a shell that was opened on it, until long after it was acknowledged.
type Session struct {
	// ID is that of the grant.
	ID string `json:"id"`
	// User and Serial are the name in the certificate of whoever opened it, and the certificate's serial number; From is
	// the address that the node saw.
	User   string `json:"user"`
	Serial string `json:"serial"`
	From   string `json:"from"`
	// Reason is that of the grant, and Minutes how long it may last.
	Reason  string `json:"reason"`
	Minutes int    `json:"minutes"`
	// Until is that of the grant.
	Until time.Time `json:"until"`
	// Begun and Ended are times of the node. Ended is missing while it is open, and where the node lost its power.
	Begun time.Time `json:"begun"`
	Ended time.Time `json:"ended,omitzero"`
	// Result says how it ended.
	Result string `json:"result,omitempty"`
	// Shown is how much the shell showed, in bytes.
	Shown int64 `json:"shown"`
	// Acknowledged is when, and AcknowledgedBy by whom it was.
	Acknowledged   time.Time `json:"acknowledged,omitzero"`
	AcknowledgedBy string    `json:"acknowledgedBy,omitempty"`
}

// Text says in one line, for people, that the shell was open, and by whom and why.
func (s Session) Text() string {
	text := fmt.Sprintf("a shell was open on %s by %s (%s)", s.Begun.UTC().Format(time.RFC3339), s.User, s.Reason)
	switch {
	case s.Begun.IsZero(): // What was kept of it cannot be read.
		text = fmt.Sprintf("a shell was open (%s)", s.Result)
	case s.Ended.IsZero() && s.Result == "":
		text = fmt.Sprintf("a shell is open since %s by %s (%s)", s.Begun.UTC().Format(time.RFC3339), s.User, s.Reason)
	}
	if s.Acknowledged.IsZero() {
		return text + ", not acknowledged: " + s.ID
	}
	return text + fmt.Sprintf(", acknowledged by %s", s.AcknowledgedBy)
}

// Record is a part of what a session showed, or of what its shell read where no terminal showed that.
type Record struct {
	// At is how long after the beginning, in milliseconds.
	At int64 `json:"at"`
	// Input is true of what the shell read.
	Input bool `json:"input,omitempty"`
	// Data is what was shown.
	Data []byte `json:"data"`
}

// Fields of the journal (systemd.journal-fields(7)) in which a session is recorded: the session, the number of the
// record in it from 0 on, the milliseconds since the beginning, what it is, and the data in base64. A record of the
// beginning or of the end has no data.
const (
	SessionField = "SPORE_SHELL_SESSION"
	NumberField  = "SPORE_SHELL_NUMBER"
	AtField      = "SPORE_SHELL_AT"
	StreamField  = "SPORE_SHELL_STREAM"
	DataField    = "SPORE_SHELL_DATA"
)

// Values of StreamField.
const (
	StreamOutput = "output"
	StreamInput  = "input"
	StreamBegin  = "begin"
	StreamEnd    = "end"
)
