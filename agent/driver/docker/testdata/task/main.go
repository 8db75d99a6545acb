// Command task is what the tests run in containers, built without libc, so that an image needs nothing else. It does what its arguments say, one after the other.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	args := os.Args[1:]
	next := func() string {
		if len(args) == 0 {
			fmt.Fprintln(os.Stderr, "an argument is missing")
			os.Exit(64)
		}
		var first string
		first, args = args[0], args[1:]
		return first
	}
	deaf := len(args) > 0 && args[0] == "deaf"
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	go func() { // the first process of a container has no default actions
		for s := range signals {
			if n := s.(syscall.Signal); !deaf {
				os.Exit(128 + int(n))
			}
		}
	}()
	for len(args) > 0 {
		switch verb := next(); verb {
		case "deaf":
		case "out":
			fmt.Println(next())
		case "err":
			fmt.Fprintln(os.Stderr, next())
		case "long":
			n, _ := strconv.Atoi(next())
			fmt.Println(strings.Repeat("x", n))
		case "exit":
			n, _ := strconv.Atoi(next())
			os.Exit(n)
		case "cat":
			_, err := io.Copy(os.Stdout, os.Stdin)
			check(err)
		case "size": // of its terminal, after each of two lines that are typed
			in := bufio.NewReader(os.Stdin)
			for range 2 {
				_, _ = in.ReadString('\n')
				printSize()
			}
		case "spawn": // another such program, in a session of its own, that outlives this one
			cmd := exec.Command("/task", "out", next())
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			check(cmd.Start())
		case "sleep":
			d, _ := time.ParseDuration(next())
			time.Sleep(d)
		case "until": // until there is a file
			for path := next(); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(path); err == nil {
					break
				}
			}
		case "hog":
			var held [][]byte
			for {
				page := make([]byte, 1<<20)
				for i := 0; i < len(page); i += 4096 {
					page[i] = 1
				}
				held = append(held, page)
			}
		case "listen":
			l, err := net.Listen("tcp", ":"+next())
			check(err)
			go func() {
				for {
					c, err := l.Accept()
					check(err)
					_ = c.SetDeadline(time.Now().Add(10 * time.Second))
					_, _ = c.Read(make([]byte, 4096)) // the request
					_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nhello\n")
					_ = c.Close()
				}
			}()
		case "write":
			err := os.WriteFile(next(), []byte("written\n"), 0o644)
			fmt.Println("write:", errText(err))
		case "read":
			data, err := os.ReadFile(next())
			fmt.Println("read:", strings.TrimSpace(string(data)), errText(err))
		case "env":
			name := next()
			fmt.Println(name + "=" + os.Getenv(name))
		case "who":
			dir, err := os.Getwd()
			check(err)
			fmt.Printf("uid %d gid %d dir %s pid %d\n", os.Getuid(), os.Getgid(), dir, os.Getpid())
		case "status": // a line of /proc/self/status
			data, err := os.ReadFile("/proc/self/status")
			check(err)
			name := next()
			for line := range strings.Lines(string(data)) {
				if strings.HasPrefix(line, name+":") {
					fmt.Println(strings.Join(strings.Fields(line), " "))
				}
			}
		default:
			fmt.Fprintln(os.Stderr, "unknown:", verb)
			os.Exit(64)
		}
	}
	select {}
}

func printSize() {
	var size struct{ rows, columns, x, y uint16 }
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		check(errno)
	}
	fmt.Println(size.rows, size.columns)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(65)
	}
}

func errText(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}
