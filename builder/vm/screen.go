package vm

import (
	"bufio"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"os"
	"path/filepath"
)

// maxScreen bounds the width and height of a screen, in pixels.
const maxScreen = 4096

// Screen is a picture of what a machine with Config.Display shows.
func (m *Machine) Screen() (image.Image, error) {
	name := filepath.Join(m.dir, "screen.ppm")
	if err := m.Monitor("screendump", map[string]any{"filename": name}, nil); err != nil {
		return nil, fmt.Errorf("machine %s: %w", m.Config.Name, err)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	picture, err := decodePPM(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("machine %s: picture of the screen: %w", m.Config.Name, err)
	}
	return picture, nil
}

// decodePPM reads a picture as QEMU writes it: PPM in its raw form (ppm(5)), 8 bits a colour, without comments.
func decodePPM(r io.Reader) (*image.RGBA, error) {
	var magic string
	var width, height, most int
	// The one byte of white space behind the header is read by %c.
	var space rune
	if _, err := fmt.Fscanf(r, "%2s\n%d %d\n%d%c", &magic, &width, &height, &most, &space); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if magic != "P6" || most != 255 || width < 1 || height < 1 || width > maxScreen || height > maxScreen {
		return nil, errors.New("it is not a raw PPM with 8 bits for each colour")
	}
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	row := make([]byte, 3*width)
	for y := range height {
		if _, err := io.ReadFull(r, row); err != nil {
			return nil, fmt.Errorf("row %d: %w", y, err)
		}
		for x := range width {
			out.SetRGBA(x, y, color.RGBA{row[3*x], row[3*x+1], row[3*x+2], 255})
		}
	}
	return out, nil
}

// Press presses a key by QEMU's name for it (QKeyCode), such as spc or ret.
func (m *Machine) Press(key string) error {
	return m.Monitor("send-key", map[string]any{"keys": []map[string]string{{"type": "qcode", "data": key}}}, nil)
}
