// Program gateway reads holding registers of a device over Modbus/TCP and writes each to a key of Valkey, again and
// again. It ends when the store or the device fails; systemd starts it again.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// timeout bounds each exchange with the device or the store.
const timeout = 10 * time.Second

// settings are the file that roles/gateway/gateway.json.tmpl makes.
type settings struct {
	Device      string     `json:"device"`
	EveryMillis int        `json:"everyMillis"`
	Registers   []register `json:"registers"`
	Store       string     `json:"store"`
	User        string     `json:"user"`
	Password    string     `json:"password"`
}

type register struct {
	Address uint16 `json:"address"`
	Key     string `json:"key"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: gateway FILE")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	var s settings
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	g, err := open(s)
	if err != nil {
		return err
	}
	defer g.close()
	for first := true; ; first = false {
		if err := g.copy(s.Registers); err != nil {
			return err
		}
		if first {
			fmt.Printf("wrote %d values of %s\n", len(s.Registers), s.Device)
		}
		time.Sleep(time.Duration(s.EveryMillis) * time.Millisecond)
	}
}

// gateway has a connection to each side.
type gateway struct {
	device *modbus
	store  *store
}

func open(s settings) (*gateway, error) {
	device, err := net.DialTimeout("tcp", s.Device, timeout)
	if err != nil {
		return nil, fmt.Errorf("connect to the device: %w", err)
	}
	conn, err := net.DialTimeout("tcp", s.Store, timeout)
	if err != nil {
		device.Close()
		return nil, fmt.Errorf("connect to the store: %w", err)
	}
	g := &gateway{&modbus{conn: device}, newStore(conn)}
	if err := g.store.do("AUTH", s.User, s.Password); err != nil {
		g.close()
		return nil, fmt.Errorf("log in to the store as %s: %w", s.User, err)
	}
	return g, nil
}

func (g *gateway) close() {
	g.device.conn.Close()
	g.store.conn.Close()
}

// copy reads each register once and writes it.
func (g *gateway) copy(registers []register) error {
	for _, r := range registers {
		value, err := g.device.read(r.Address)
		if err != nil {
			return fmt.Errorf("read register %d: %w", r.Address, err)
		}
		if err := g.store.do("SET", r.Key, strconv.Itoa(int(value))); err != nil {
			return fmt.Errorf("write %s: %w", r.Key, err)
		}
	}
	return nil
}
