package runner

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const digestSize = sha256.Size

// executable is an open file and the hash of its content. It is run through its descriptor, never through its path, so another
// file put under that path changes nothing.
type executable struct {
	file   *os.File
	digest [digestSize]byte
	stamp  stamp
	sealed bool
}

// stamp tells whether a file was written to. The kernel refuses writes to a running program, so an equal stamp after the start
// means that what was hashed is what runs.
type stamp struct {
	device, inode             uint64
	size, ctimeSec, ctimeNsec int64
}

// openExecutable opens and hashes the file at path, unless its hash is known and not pinned. With a pinned hash it works on a sealed copy in memory.
func openExecutable(path string, pinned []byte, known *digests) (*executable, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	exe := &executable{file: file}
	if exe.stamp, err = exe.readStamp(); err == nil {
		err = exe.identify(pinned != nil, known)
	}
	if err != nil {
		_ = exe.file.Close()
		return nil, refuse(StepVerify, "cannot read it: "+err.Error(), "", err)
	}
	if pinned != nil && subtle.ConstantTimeCompare(exe.digest[:], pinned) != 1 {
		_ = exe.file.Close()
		return nil, refuse(StepVerify, fmt.Sprintf("its sha256 is %x, the configuration pins %x", exe.digest, pinned),
			"if you changed the plugin on purpose, pin the new sha256; if not, find out who did", ErrDigest)
	}
	return exe, nil
}

// DigestFile returns the sha256 of the executable at a path, or what is wrong with it.
func DigestFile(path string) ([32]byte, error) {
	exe, err := openExecutable(path, nil, &digests{})
	if err != nil {
		return [32]byte{}, err
	}
	return exe.digest, exe.file.Close()
}

// openRegular opens a file that may be run, or says what is wrong with it.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, explainMissing(path, err)
	}
	if err := checkMode(info); err != nil {
		return nil, err
	}
	// Without O_NONBLOCK a pipe put here in the meantime would block for ever.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		hint := scarcity(err)
		if errors.Is(err, fs.ErrPermission) {
			hint = "the host's user needs read permission on it, to hash it, and on the directories above it"
		}
		return nil, refuse(StepOpen, "cannot open it: "+err.Error(), hint, err)
	}
	if info, err = file.Stat(); err == nil {
		err = checkMode(info)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func explainMissing(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return refuse(StepOpen, "cannot look at it: "+err.Error(), "", err)
	}
	if target, linkErr := os.Readlink(path); linkErr == nil {
		return refuse(StepOpen, fmt.Sprintf("it is a symbolic link to %s, which does not exist", target),
			"install the plugin there, or point the link or the configuration at the right file", err)
	}
	return refuse(StepOpen, "no such file", "install the plugin there, or correct its path in the configuration", err)
}

func checkMode(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return refuse(StepOpen, "it is a directory", "name the executable file in it", unix.EISDIR)
	case !mode.IsRegular():
		return refuse(StepOpen, fmt.Sprintf("it is not a regular file (%s)", mode.Type()), "name an executable file", fs.ErrInvalid)
	case mode.Perm()&0o111 == 0:
		return refuse(StepOpen, fmt.Sprintf("it is not executable (mode %04o)", mode.Perm()), "chmod +x it", fs.ErrPermission)
	case mode.Perm()&0o002 != 0:
		return refuse(StepOpen, fmt.Sprintf("everybody on this machine may change it (mode %04o)", mode.Perm()),
			"chmod o-w it", fs.ErrPermission)
	}
	return nil
}

// identify fills in the digest.
func (e *executable) identify(pinned bool, known *digests) error {
	if sum, ok := known.get(e.stamp); ok && !pinned {
		e.digest = sum
		return nil
	}
	before := e.stamp
	if err := e.hash(pinned); err != nil || pinned {
		return err
	}
	if after, err := e.readStamp(); err == nil && after == before {
		known.put(before, e.digest, time.Now())
	}
	return nil
}

// hash fills in the digest. With seal it replaces the file by a copy in memory that nobody can write to any more.
func (e *executable) hash(seal bool) error {
	sum := sha256.New()
	var copyTo io.Writer = io.Discard
	var memory *os.File
	if seal {
		var err error
		if memory, err = newMemoryFile(); err != nil {
			return err
		}
		copyTo = memory
	}
	_, err := io.Copy(copyTo, io.TeeReader(e.file, sum))
	sum.Sum(e.digest[:0])
	if !seal {
		return err
	}
	defer memory.Close()
	if err != nil {
		return err
	}
	return e.replaceBySealed(memory)
}

func newMemoryFile() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("plugin", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 there is no MFD_EXEC, and each such file may be executed
		fd, err = unix.MemfdCreate("plugin", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("create a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "plugin"), nil
}

func (e *executable) replaceBySealed(memory *os.File) error {
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("seal the copy in memory: %w", err)
	}
	// A file that is open for writing cannot be executed, so it is opened once more, only for reading.
	file, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(memory.Fd())))
	if err != nil {
		return err
	}
	_ = e.file.Close()
	e.file, e.sealed = file, true
	return nil
}

func (e *executable) readStamp() (stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(e.file.Fd()), &st); err != nil {
		return stamp{}, err
	}
	return stamp{device: st.Dev, inode: st.Ino, size: st.Size, ctimeSec: st.Ctim.Sec, ctimeNsec: st.Ctim.Nsec}, nil
}

// unchanged fails if what runs is not what was hashed. To be called once the process runs, when nobody can write to the file.
func (e *executable) unchanged() error {
	if e.sealed {
		return nil
	}
	now, err := e.readStamp()
	if err == nil && now != e.stamp { // written to, or only unlinked or renamed
		sum := sha256.New()
		_, err = io.Copy(sum, io.NewSectionReader(e.file, 0, now.size))
		if err == nil && !bytes.Equal(sum.Sum(nil), e.digest[:]) {
			err = errors.New("the file changed while it was being started")
		}
	}
	if err != nil {
		return refuse(StepVerify, err.Error(), "install plugins by renaming a finished file into place", err)
	}
	return nil
}

const moreFiles = "raise the host's limit of open files (ulimit -n, or LimitNOFILE of its unit)"

// scarcity says what to do about an error that says that the host itself lacks something; "" for any other.
func scarcity(err error) string {
	is := func(e unix.Errno) bool {
		return errors.Is(err, e) || err != nil && strings.HasSuffix(err.Error(), e.Error()+"\"")
	} // gRPC keeps the text alone
	switch {
	case is(unix.EMFILE), is(unix.ENFILE):
		return moreFiles
	case is(unix.EAGAIN):
		return "raise the host's limit of processes (ulimit -u, or LimitNPROC and TasksMax of its unit)"
	case is(unix.ENOMEM):
		return "the machine has too little memory left"
	}
	return ""
}

// explainSpawn turns the error of execve into what to do about it.
func (e *executable) explainSpawn(err error) error {
	reason, hint := "cannot run it: "+err.Error(), scarcity(err)
	switch {
	case errors.Is(err, unix.ENOEXEC):
		reason, hint = e.wrongFormat()
	case errors.Is(err, unix.ENOENT):
		reason = "the interpreter that it names does not exist"
		hint = "check its #! line, or the loader that `file` prints for it"
	case errors.Is(err, unix.EACCES):
		hint = "is its file system mounted noexec, or a security module in the way?"
	case errors.Is(err, unix.ETXTBSY):
		hint = "somebody is writing to it; install plugins by renaming a finished file into place"
	case errors.Is(err, unix.E2BIG):
		hint = "its arguments and variables are too large together; give large values in its config block"
	}
	return refuse(StepSpawn, reason, hint, err)
}

func (e *executable) isELF() bool {
	var head [len(elf.ELFMAG)]byte
	_, err := e.file.ReadAt(head[:], 0)
	return err == nil && string(head[:]) == elf.ELFMAG
}

func (e *executable) wrongFormat() (reason, hint string) {
	machine := runtime.GOOS + "/" + runtime.GOARCH
	var head [20]byte
	if _, err := e.file.ReadAt(head[:], 0); err != nil || string(head[:4]) != elf.ELFMAG {
		return "it is not a program for this machine", "it has neither the format of " + machine + " nor a #! line"
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	return fmt.Sprintf("it was built for another machine (%s)", elf.Machine(order.Uint16(head[18:]))), "install its build for " + machine
}
