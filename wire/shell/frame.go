package shell

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Protocol is what the connection becomes (RFC 9110, section 7.8, Upgrade), GrantHeader has the grant in base64.
const (
	Protocol    = "spore-shell/1"
	GrantHeader = "Spore-Grant"
)

// Parameters of the request: the kind of terminal (terminfo(5)) and its size. Without a kind there is no terminal, and
// the shell reads a pipe.
const (
	TermParameter    = "term"
	RowsParameter    = "rows"
	ColumnsParameter = "columns"
)

// Times of a session: each side gives a sign in this time, and gives up after the other.
const (
	Pulse   = 15 * time.Second
	Silence = time.Minute
)

// MaxFrame is that of what a frame carries, in bytes.
const MaxFrame = 8 << 10

// Kind is what a frame carries.
type Kind byte

// Kinds of frames. A frame is its kind, the length of what follows in two bytes, the higher first, and that.
const (
	// Input is what the shell reads; End that nothing more comes. Resize has the rows and columns, in two bytes each.
	Input  Kind = 'i'
	End    Kind = 'e'
	Resize Kind = 'r'
	// Output is what the shell shows. Exit is the last frame, with the JSON of an Outcome.
	Output Kind = 'o'
	Exit   Kind = 'x'
	// Alive is a sign without a meaning.
	Alive Kind = 'a'
)

// Outcome is how a session ended.
type Outcome struct {
	// Status is the exit status of the shell, as a shell would see it: 128 and the number of the signal that ended it.
	Status int `json:"status"`
	// Why says why it ended before the shell did; it is empty where the shell ended by itself.
	Why string `json:"why,omitempty"`
}

// String says it for people.
func (o Outcome) String() string {
	if o.Why != "" {
		return o.Why
	}
	return fmt.Sprintf("exit status %d", o.Status)
}

// ParseOutcome reads what the last frame carries.
func ParseOutcome(data []byte) (Outcome, error) {
	var o Outcome
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("the end of the session is malformed: %w", err)
	}
	if o.Status < 0 || o.Status > 255 {
		return Outcome{}, fmt.Errorf("the end of the session is malformed: there is no exit status %d", o.Status)
	}
	return o, nil
}

// WriteFrame writes a frame at once.
func WriteFrame(w io.Writer, kind Kind, data []byte) error {
	if len(data) > MaxFrame {
		return fmt.Errorf("internal error: a frame of %d bytes", len(data))
	}
	out := append([]byte{byte(kind), 0, 0}, data...)
	binary.BigEndian.PutUint16(out[1:], uint16(len(data)))
	_, err := w.Write(out)
	return err
}

// ErrFrame is a frame that is malformed.
var ErrFrame = errors.New("a frame of the session is malformed")

// ReadFrame reads a frame. io.EOF is an end between two frames.
func ReadFrame(r io.Reader) (Kind, []byte, error) {
	var head [3]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrFrame
		}
		return 0, nil, err
	}
	kind, size := Kind(head[0]), int(binary.BigEndian.Uint16(head[1:]))
	if !strings.ContainsRune("ieroxa", rune(kind)) || size > MaxFrame {
		return 0, nil, ErrFrame
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrFrame
		}
		return 0, nil, err
	}
	return kind, data, nil
}

// Size is that of a terminal.
type Size struct{ Rows, Columns uint16 }

// Encode is what a frame Resize carries.
func (s Size) Encode() []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, s.Rows), s.Columns)
}

// maxSide is how many rows or columns a terminal has at most.
const maxSide = 4096

// Check says what is wrong with a size.
func (s Size) Check() error {
	if s.Rows == 0 || s.Columns == 0 || s.Rows > maxSide || s.Columns > maxSide {
		return fmt.Errorf("a terminal has 1 to %d rows and columns", maxSide)
	}
	return nil
}

// ParseSize reads what a frame Resize carries.
func ParseSize(data []byte) (Size, error) {
	if len(data) != 4 {
		return Size{}, ErrFrame
	}
	s := Size{binary.BigEndian.Uint16(data), binary.BigEndian.Uint16(data[2:])}
	return s, s.Check()
}

// Terminal is the terminal of whoever opens a shell.
type Terminal struct {
	// Kind is its name in terminfo(5).
	Kind string `json:"kind"`
	Size
}

// Check says what is wrong with a terminal.
func (t Terminal) Check() error {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("+-._", r)
	}
	if t.Kind == "" || len(t.Kind) > 64 || strings.IndexFunc(t.Kind, func(r rune) bool { return !plain(r) }) >= 0 {
		return fmt.Errorf("%.64q is not the name of a terminal", t.Kind)
	}
	return t.Size.Check()
}
