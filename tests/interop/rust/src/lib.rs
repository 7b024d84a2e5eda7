//! Starts the real server for a test and takes it down again.
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A private server on loopback with memory durability; killed when dropped.
pub struct Server {
    child: Child,
    folder: PathBuf,
    pub address: String,
}

impl Server {
    pub fn start() -> Server {
        Server::with("127.0.0.1:0", None)
    }

    /// `listen` with port 0 takes a free port; `token` is the one client token, if any.
    pub fn with(listen: &str, token: Option<&str>) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ticketing-interop-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the server");
        let program = std::env::var_os("TICKETING_PROGRAM").expect("TICKETING_PROGRAM is not set");
        let mut command = Command::new(program);
        command.args(["serve", "--listen", listen, "--durability", "memory", "--ready-fd", "1", "--data"]);
        command.arg(folder.join("data"));
        if let Some(token) = token {
            let path = folder.join("tokens");
            fs::write(&path, format!("{token}\n")).expect("the token file");
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
            command.arg("--token-file").arg(path);
        }
        let log = folder.join("log");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(&log).expect("its log"));
        let mut child = command.spawn().expect("the server does not start");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut ready).expect("the ready line");
        let address = ready
            .split_once("\"address\"")
            .and_then(|(_, rest)| rest.split('"').nth(1))
            .unwrap_or_else(|| panic!("no address in {ready:?}: {}", fs::read_to_string(&log).unwrap_or_default()))
            .to_string();
        Server { child, folder, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
