export function Logo({ size = 28 }: { size?: number }) {
  return (
    <svg class="logo" width={size} height={size} viewBox="0 0 32 32" fill="none" aria-hidden="true">
      <path class="sleepers" d="M7 8.500h7M7 14h7M7 25h7" />
      <path class="straight" d="M10.500 28V4" />
      <path class="diverging" d="M10.500 22C10.500 14 21.500 15 21.500 4" />
      <circle class="lever" cx="10.500" cy="22" r="2.800" />
    </svg>
  );
}
