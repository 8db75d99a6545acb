package datadir

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

func TestAddress(t *testing.T) {
	d := Dir(t.TempDir())
	if _, err := d.ReadAddress(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v, want fs.ErrNotExist", err)
	}
	for _, url := range []string{"https://127.0.0.1:7480", "https://[::1]:80"} {
		if err := d.WriteAddress(url); err != nil {
			t.Fatal(err)
		}
		if got, err := d.ReadAddress(); got != url || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, url)
		}
	}
	left, err := os.ReadDir(string(d))
	if err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v; want the address only", left, err)
	}
	if err := os.WriteFile(d.AddressFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadAddress(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file: %v, want fs.ErrNotExist", err)
	}
}

func TestWriteFileWithoutDirectory(t *testing.T) {
	if err := WriteFile(t.TempDir()+"/missing/file", nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}
