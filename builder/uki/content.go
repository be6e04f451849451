package uki

// Content is what fills a section. It is read when an image is made, straight into its place.
type Content interface {
	// Size is its length in bytes.
	Size() int64
	// ReadInto fills p, which has the length Size.
	ReadInto(p []byte) error
}

// Bytes is content that is in memory.
type Bytes []byte

// copyPiece is how much of Bytes is copied at once. The garbage collector waits for the end of a copy, and burns a processor
// for as long as that.
const copyPiece = 256 << 10

// Size implements Content.
func (b Bytes) Size() int64 { return int64(len(b)) }

// ReadInto implements Content.
func (b Bytes) ReadInto(p []byte) error {
	for len(b) > 0 {
		n := copy(p, b[:min(len(b), copyPiece)])
		p, b = p[n:], b[n:]
	}
	return nil
}

// Joined is content after content.
type Joined []Content

// Size implements Content.
func (j Joined) Size() int64 {
	var size int64
	for _, c := range j {
		size += c.Size()
	}
	return size
}

// ReadInto implements Content.
func (j Joined) ReadInto(p []byte) error {
	for _, c := range j {
		size := c.Size()
		if err := c.ReadInto(p[:size]); err != nil {
			return err
		}
		p = p[size:]
	}
	return nil
}

// Read returns content whole.
func Read(c Content) ([]byte, error) {
	if b, ok := c.(Bytes); ok {
		return b, nil
	}
	p := make([]byte, c.Size())
	return p, c.ReadInto(p)
}
